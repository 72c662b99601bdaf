/* SPDX-License-Identifier: MIT */
/* Configs of public models, as far as their shape goes, and the totals that
 * are published of them; for test_model.c. */
#ifndef OH_TESTS_MODEL_PUBLISHED_H
#define OH_TESTS_MODEL_PUBLISHED_H

#define MOE_30B                                                                \
	"\"hidden_size\":2048,\"num_hidden_layers\":48,\"vocab_size\":151936," \
	"\"num_attention_heads\":32,\"num_key_value_heads\":4,\"head_dim\":"   \
	"128,\"intermediate_size\":6144,\"moe_intermediate_size\":768,"        \
	"\"num_experts\":128,\"num_experts_per_tok\":8"

#define DEEPSEEK_V3                                                            \
	"\"model_type\":\"deepseek_v3\",\"hidden_size\":7168,"                 \
	"\"num_hidden_layers\":61,\"vocab_size\":129280,"                      \
	"\"num_attention_heads\":128,\"num_key_value_heads\":128,"             \
	"\"intermediate_size\":18432,\"moe_intermediate_size\":2048,"          \
	"\"n_routed_experts\":256,\"num_experts_per_tok\":8,"                  \
	"\"n_shared_experts\":1,\"first_k_dense_replace\":3,"                  \
	"\"moe_layer_freq\":1,\"num_nextn_predict_layers\":1,"                 \
	"\"q_lora_rank\":1536,\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,"  \
	"\"qk_rope_head_dim\":64,\"v_head_dim\":128,"                          \
	"\"tie_word_embeddings\":false,\"torch_dtype\":\"bfloat16\""

#define LLAMA_8B                                                               \
	"\"model_type\":\"llama\",\"hidden_size\":4096,"                       \
	"\"num_hidden_layers\":32,\"vocab_size\":128256,"                      \
	"\"num_attention_heads\":32,\"num_key_value_heads\":8,"                \
	"\"intermediate_size\":14336"

/* A published total. active 0: not compared. */
struct published {
	const char *name;
	const char *config;
	double total, active;
};

static const struct published published[] = {
	/* meta-llama/Llama-2-7b-hf, safetensors; the old config has no
	 * num_key_value_heads */
	{"Llama 2 7B",
	 "{\"model_type\":\"llama\",\"hidden_size\":4096,\"intermediate_size\":"
	 "11008,\"num_attention_heads\":32,\"num_hidden_layers\":32,"
	 "\"vocab_size\":32000}",
	 6738415616, 0},
	/* meta-llama/Llama-3.1-70B, safetensors */
	{"Llama 3.1 70B",
	 "{\"model_type\":\"llama\",\"hidden_size\":8192,\"intermediate_size\":"
	 "28672,\"num_attention_heads\":64,\"num_key_value_heads\":8,"
	 "\"num_hidden_layers\":80,\"vocab_size\":128256}",
	 70553706496, 0},
	/* meta-llama/Llama-3.2-1B, safetensors; tied, so all is read */
	{"Llama 3.2 1B",
	 "{\"model_type\":\"llama\",\"hidden_size\":2048,\"intermediate_size\":"
	 "8192,\"num_attention_heads\":32,\"num_key_value_heads\":8,"
	 "\"head_dim\":64,\"num_hidden_layers\":16,\"vocab_size\":128256,"
	 "\"tie_word_embeddings\":true}",
	 1235814400, 1235814400},
	/* mistralai/Mistral-Nemo-Base-2407, safetensors; heads are not as wide
	 * as hidden_size / heads */
	{"Mistral Nemo",
	 "{\"model_type\":\"mistral\",\"hidden_size\":5120,"
	 "\"intermediate_size\":14336,\"num_attention_heads\":32,"
	 "\"num_key_value_heads\":8,\"head_dim\":128,\"num_hidden_layers\":40,"
	 "\"vocab_size\":131072}",
	 12247782400, 0},
	/* Qwen/Qwen2.5-7B, safetensors */
	{"Qwen2.5 7B",
	 "{\"model_type\":\"qwen2\",\"hidden_size\":3584,\"intermediate_size\":"
	 "18944,\"num_attention_heads\":28,\"num_key_value_heads\":4,"
	 "\"num_hidden_layers\":28,\"vocab_size\":152064}",
	 7615616512, 0},
	/* Qwen/Qwen2-57B-A14B, safetensors */
	{"Qwen2 57B-A14B",
	 "{\"model_type\":\"qwen2_moe\",\"hidden_size\":3584,"
	 "\"intermediate_size\":18944,\"num_attention_heads\":28,"
	 "\"num_key_value_heads\":4,\"num_hidden_layers\":28,\"vocab_size\":"
	 "151936,\"decoder_sparse_step\":1,\"num_experts\":64,"
	 "\"num_experts_per_tok\":8,\"moe_intermediate_size\":2560,"
	 "\"shared_expert_intermediate_size\":20480}",
	 57408658944, 0},
	/* Qwen/Qwen3-8B, safetensors */
	{"Qwen3 8B",
	 "{\"model_type\":\"qwen3\",\"hidden_size\":4096,\"intermediate_size\":"
	 "12288,\"num_attention_heads\":32,\"num_key_value_heads\":8,"
	 "\"num_hidden_layers\":36,\"vocab_size\":151936}",
	 8190735360, 0},
	/* Qwen/Qwen3-30B-A3B, safetensors; active: all but 120 of 128 experts,
	 * 30532122624 - 48 * 120 * 3 * 2048 * 768, and the embedding table,
	 * 151936 * 2048 */
	{"Qwen3 30B-A3B",
	 "{\"model_type\":\"qwen3_moe\"," MOE_30B
	 ",\"decoder_sparse_step\":1,\"mlp_only_layers\":[]}",
	 30532122624, 3041867776},
	/* two of its layers made dense: each loses 128 experts of
	 * 3 * 2048 * 768 and a router of 128 * 2048 for an MLP of
	 * 3 * 2048 * 6144 */
	{"Qwen3 30B-A3B with mlp_only_layers",
	 "{\"model_type\":\"qwen3_moe\"," MOE_30B
	 ",\"decoder_sparse_step\":1,\"mlp_only_layers\":[0,47,99]}",
	 30532122624 - 2 * (128 * 4718592.0 + 262144 - 37748736), 0},
	/* every second layer dense, likewise 24 of 48 */
	{"Qwen3 30B-A3B with decoder_sparse_step",
	 "{\"model_type\":\"qwen3_moe\"," MOE_30B ",\"decoder_sparse_step\":2}",
	 30532122624 - 24 * (128 * 4718592.0 + 262144 - 37748736), 0},
	/* Qwen/Qwen3-Coder-Next, safetensors; Qwen3-Next's shape */
	{"Qwen3-Next 80B-A3B",
	 "{\"model_type\":\"qwen3_next\",\"hidden_size\":2048,"
	 "\"intermediate_size\":5120,\"num_attention_heads\":16,"
	 "\"num_key_value_heads\":2,\"head_dim\":256,\"num_hidden_layers\":48,"
	 "\"vocab_size\":151936,\"num_experts\":512,\"num_experts_per_tok\":10,"
	 "\"moe_intermediate_size\":512,\"shared_expert_intermediate_size\":"
	 "512,\"linear_num_key_heads\":16,\"linear_num_value_heads\":32,"
	 "\"linear_key_head_dim\":128,\"linear_value_head_dim\":128,"
	 "\"linear_conv_kernel_dim\":4,\"full_attention_interval\":4}",
	 79674391296, 0},
	/* llama.cpp's n_params of Qwen3.6 27B, the text model alone */
	{"Qwen3.6 27B, nested",
	 "{\"model_type\":\"qwen3_5\",\"vision_config\":{\"hidden_size\":1152},"
	 "\"text_config\":{\"model_type\":\"qwen3_5_text\",\"hidden_size\":"
	 "5120,\"intermediate_size\":17408,\"num_attention_heads\":24,"
	 "\"num_key_value_heads\":4,\"head_dim\":256,\"num_hidden_layers\":64,"
	 "\"vocab_size\":248320,\"linear_num_key_heads\":16,"
	 "\"linear_num_value_heads\":48,\"linear_key_head_dim\":128,"
	 "\"linear_value_head_dim\":128}}",
	 26895998464, 0},
	/* mistralai/Mixtral-8x7B-v0.1, safetensors */
	{"Mixtral 8x7B",
	 "{\"model_type\":\"mixtral\",\"hidden_size\":4096,"
	 "\"intermediate_size\":14336,\"num_attention_heads\":32,"
	 "\"num_key_value_heads\":8,\"num_hidden_layers\":32,\"vocab_size\":"
	 "32000,\"num_local_experts\":8,\"num_experts_per_tok\":2}",
	 46702792704, 0},
	/* deepseek-ai/DeepSeek-V2-Lite, safetensors; no projection down for
	 * the queries */
	{"DeepSeek-V2-Lite",
	 "{\"model_type\":\"deepseek_v2\",\"hidden_size\":2048,"
	 "\"num_hidden_layers\":27,\"vocab_size\":102400,"
	 "\"num_attention_heads\":16,\"num_key_value_heads\":16,"
	 "\"intermediate_size\":10944,\"moe_intermediate_size\":1408,"
	 "\"n_routed_experts\":64,\"num_experts_per_tok\":6,"
	 "\"n_shared_experts\":2,\"first_k_dense_replace\":1,"
	 "\"moe_layer_freq\":1,\"q_lora_rank\":null,\"kv_lora_rank\":512,"
	 "\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128}",
	 15706484224, 0},
	/* deepseek-ai/DeepSeek-V2, safetensors */
	{"DeepSeek-V2",
	 "{\"model_type\":\"deepseek_v2\",\"hidden_size\":5120,"
	 "\"num_hidden_layers\":60,\"vocab_size\":102400,"
	 "\"num_attention_heads\":128,\"num_key_value_heads\":128,"
	 "\"intermediate_size\":12288,\"moe_intermediate_size\":1536,"
	 "\"n_routed_experts\":160,\"num_experts_per_tok\":6,"
	 "\"n_shared_experts\":2,\"first_k_dense_replace\":1,\"q_lora_rank\":"
	 "1536,\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,"
	 "\"qk_rope_head_dim\":64,\"v_head_dim\":128}",
	 235741434880, 0},
	/* deepseek-ai/DeepSeek-V3: headers of its main model; README_WEIGHTS
	 * says 36.6e9 active with the head and without the table */
	{"DeepSeek-V3", "{" DEEPSEEK_V3 "}", 671026419200, 36625618432},
	/* moonshotai/Kimi-K2-Instruct, headers of all shards; the class alone
	 * tells the family when model_type is left out */
	{"Kimi K2",
	 "{\"model_type\":\"kimi_k2\",\"hidden_size\":7168,"
	 "\"num_hidden_layers\":61,\"vocab_size\":163840,"
	 "\"num_attention_heads\":64,\"num_key_value_heads\":64,"
	 "\"intermediate_size\":18432,\"moe_intermediate_size\":2048,"
	 "\"n_routed_experts\":384,\"num_experts_per_tok\":8,"
	 "\"n_shared_experts\":1,\"first_k_dense_replace\":1,\"q_lora_rank\":"
	 "1536,\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,"
	 "\"qk_rope_head_dim\":64,\"v_head_dim\":128}",
	 1026408232448, 0},
	/* THUDM/GLM-4-9B-0414, n_params of its bf16 file */
	{"GLM-4 9B",
	 "{\"model_type\":\"glm4\",\"hidden_size\":4096,\"intermediate_size\":"
	 "13696,\"num_attention_heads\":32,\"num_key_value_heads\":2,"
	 "\"head_dim\":128,\"attention_bias\":true,\"num_hidden_layers\":40,"
	 "\"vocab_size\":151552}",
	 9400279040, 0},
	/* zai-org/GLM-4.5, its layers without the one for MTP: the card says
	 * 355e9 with it */
	{"GLM-4.5",
	 "{\"model_type\":\"glm4_moe\",\"hidden_size\":5120,"
	 "\"intermediate_size\":12288,\"num_attention_heads\":96,"
	 "\"num_key_value_heads\":8,\"head_dim\":128,\"attention_bias\":true,"
	 "\"use_qk_norm\":true,\"num_hidden_layers\":92,\"vocab_size\":151552,"
	 "\"n_routed_experts\":160,\"num_experts_per_tok\":8,"
	 "\"n_shared_experts\":1,\"moe_intermediate_size\":1536,"
	 "\"first_k_dense_replace\":3,\"num_nextn_predict_layers\":1}",
	 352797829024, 0},
	/* PrimeIntellect/INTELLECT-3, safetensors: GLM-4.5-Air without MTP */
	{"GLM-4.5-Air",
	 "{\"model_type\":\"glm4_moe\",\"hidden_size\":4096,"
	 "\"intermediate_size\":10944,\"num_attention_heads\":96,"
	 "\"num_key_value_heads\":8,\"head_dim\":128,\"attention_bias\":true,"
	 "\"use_qk_norm\":false,\"num_hidden_layers\":46,\"vocab_size\":151552,"
	 "\"n_routed_experts\":128,\"num_experts_per_tok\":8,"
	 "\"n_shared_experts\":1,\"moe_intermediate_size\":1408,"
	 "\"first_k_dense_replace\":1}",
	 106852251264, 0},
	/* google/gemma-2-9b, safetensors; tied without a key that says so */
	{"Gemma 2 9B",
	 "{\"model_type\":\"gemma2\",\"hidden_size\":3584,"
	 "\"intermediate_size\":14336,\"num_attention_heads\":16,"
	 "\"num_key_value_heads\":8,\"head_dim\":256,\"num_hidden_layers\":42,"
	 "\"vocab_size\":256000}",
	 9241705984, 9241705984},
	/* google/gemma-7b, safetensors */
	{"Gemma 7B",
	 "{\"model_type\":\"gemma\",\"hidden_size\":3072,\"intermediate_size\":"
	 "24576,\"num_attention_heads\":16,\"num_key_value_heads\":16,"
	 "\"head_dim\":256,\"num_hidden_layers\":28,\"vocab_size\":256000}",
	 8537680896, 0},
	/* google/gemma-3-27b-it, llama.cpp's n_params of the text model; the
	 * file leaves vocab_size out */
	{"Gemma 3 27B, nested",
	 "{\"architectures\":[\"Gemma3ForConditionalGeneration\"],"
	 "\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":"
	 "\"gemma3_text\",\"hidden_size\":5376,\"intermediate_size\":21504,"
	 "\"num_attention_heads\":32,\"num_key_value_heads\":16,\"head_dim\":"
	 "128,\"num_hidden_layers\":62},\"vision_config\":{\"hidden_size\":"
	 "1152,\"num_hidden_layers\":27}}",
	 27009346304, 0},
	/* google/gemma-3-1b-it, safetensors */
	{"Gemma 3 1B",
	 "{\"model_type\":\"gemma3_text\",\"hidden_size\":1152,"
	 "\"intermediate_size\":6912,\"num_attention_heads\":4,"
	 "\"num_key_value_heads\":1,\"head_dim\":256,\"num_hidden_layers\":26,"
	 "\"vocab_size\":262144}",
	 999885952, 0},
	/* allenai/Olmo-3-1125-32B, safetensors; fewer key and value heads than
	 * Olmo 2 has */
	{"Olmo 3 32B",
	 "{\"model_type\":\"olmo3\",\"hidden_size\":5120,"
	 "\"intermediate_size\":27648,\"num_attention_heads\":40,"
	 "\"num_key_value_heads\":8,\"num_hidden_layers\":64,"
	 "\"vocab_size\":100278,\"attention_bias\":false}",
	 32233522176, 0},
	/* ByteDance-Seed/Seed-OSS-36B-Instruct, safetensors */
	{"Seed-OSS 36B",
	 "{\"model_type\":\"seed_oss\",\"hidden_size\":5120,"
	 "\"intermediate_size\":27648,\"num_attention_heads\":80,"
	 "\"num_key_value_heads\":8,\"head_dim\":128,"
	 "\"num_hidden_layers\":64,\"vocab_size\":155136,"
	 "\"attention_bias\":true,\"attention_out_bias\":false}",
	 36151104512, 0},
	/* Qwen/Qwen3-Omni-30B-A3B: the decoder of its thinker, which is
	 * Qwen3 30B-A3B's with 128 more words, two levels down */
	{"Qwen3-Omni 30B-A3B, nested twice",
	 "{\"model_type\":\"qwen3_omni_moe\",\"thinker_config\":{"
	 "\"model_type\":\"qwen3_omni_moe_thinker\",\"text_config\":{"
	 "\"model_type\":\"qwen3_omni_moe_text\","
	 "\"hidden_size\":2048,\"num_hidden_layers\":48,"
	 "\"vocab_size\":152064,\"num_attention_heads\":32,"
	 "\"num_key_value_heads\":4,\"head_dim\":128,"
	 "\"moe_intermediate_size\":768,\"num_experts\":128,"
	 "\"num_experts_per_tok\":8}}}",
	 30532122624 + 2 * 128 * 2048.0, 0},
	/* microsoft/phi-4, general.parameter_count of its file */
	{"Phi-4",
	 "{\"model_type\":\"phi3\",\"hidden_size\":5120,\"intermediate_size\":"
	 "17920,\"num_attention_heads\":40,\"num_key_value_heads\":10,"
	 "\"num_hidden_layers\":40,\"vocab_size\":100352}",
	 14659507200, 0},
	/* meta-llama/Llama-4-Scout-17B-16E: 108641793536 in its safetensors,
	 * less 871932416 of the vision tower and its projector */
	{"Llama 4 Scout, nested",
	 "{\"model_type\":\"llama4\",\"text_config\":{\"model_type\":"
	 "\"llama4_text\",\"hidden_size\":5120,\"intermediate_size\":8192,"
	 "\"intermediate_size_mlp\":16384,\"num_attention_heads\":40,"
	 "\"num_key_value_heads\":8,\"head_dim\":128,\"num_hidden_layers\":"
	 "48,\"vocab_size\":202048,\"num_local_experts\":16,"
	 "\"num_experts_per_tok\":1,\"interleave_moe_layer_step\":1}}",
	 107769861120, 0},
	/* MiniMaxAI/MiniMax-M2, safetensors without its scales */
	{"MiniMax-M2",
	 "{\"model_type\":\"minimax_m2\",\"hidden_size\":3072,"
	 "\"intermediate_size\":1536,\"num_attention_heads\":48,"
	 "\"num_key_value_heads\":8,\"head_dim\":128,\"use_qk_norm\":true,"
	 "\"num_hidden_layers\":62,\"vocab_size\":200064,"
	 "\"num_local_experts\":256,\"num_experts_per_tok\":8}",
	 228689764864, 0},
	/* the class instead of model_type */
	{"Llama 3.1 8B by its class",
	 "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":4096,"
	 "\"num_hidden_layers\":32,\"vocab_size\":128256,"
	 "\"num_attention_heads\":32,\"num_key_value_heads\":8,"
	 "\"intermediate_size\":14336}",
	 8030261248, 7504924672},
	/* biases of q, k, v, o: 32 * (4096 + 1024 + 1024 + 4096) and of the
	 * MLP: 32 * (14336 * 2 + 4096) */
	{"Llama 3.1 8B with biases",
	 "{" LLAMA_8B ",\"attention_bias\":true,\"mlp_bias\":true}",
	 8030261248 + 32 * 10240.0 + 32 * 32768.0, 0},
};

#endif
