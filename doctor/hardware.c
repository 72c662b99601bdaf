/* SPDX-License-Identifier: MIT */
/*
 * Peak memory bandwidth and compute capability by name. A row fits when all its
 * words are in the name and the name has no other word that could mean another
 * edition; of several the row with most words wins. What is not in the table is
 * not known: a guess from a similar name would be wrong by a factor of two for
 * laptops, MIG slices and PCIe editions.
 */
#include "doctor/hardware.h"

#include <ctype.h>
#include <string.h>

#define WORDS 12
#define WORD 20

#define A100 "NVIDIA A100 data sheet, June 2021"
#define H100 "NVIDIA H100 data sheet"
#define VOLTA "NVIDIA V100 data sheet, January 2020"
#define TURING "NVIDIA Turing architecture white paper"
#define AMPERE "NVIDIA GA102 white paper"
#define ADA "NVIDIA Ada architecture white paper"
#define BLACKWELL "NVIDIA RTX Blackwell architecture white paper"
#define PRODUCT "NVIDIA data sheet of this card"
#define PAGE "NVIDIA product page of this card"

static const struct hardware table[] = {
	/* data centre */
	{"V100", 900, 70, false, VOLTA},
	{"V100S", 1134, 70, false, VOLTA},
	{"T4", 320, 75, false, PRODUCT},
	{"A2", 200, 86, false, PRODUCT},
	{"A10", 600, 86, false, PRODUCT},
	{"A10G", 600, 86, false, "AWS page of the g5 instances"},
	{"A16", 200, 86, false, PRODUCT},
	{"A30", 933, 80, false, PRODUCT},
	{"A40", 696, 86, false, PRODUCT},
	{"A100 SXM4 40GB", 1555, 80, false, A100},
	{"A100 PCIE 40GB", 1555, 80, false, A100},
	{"A100 SXM4 80GB", 2039, 80, false, A100},
	{"A100 80GB PCIe", 1935, 80, false, A100},
	{"A800 SXM4 80GB", 2039, 80, false, A100},
	{"A800 80GB PCIe", 1935, 80, false, A100},
	{"H100 80GB HBM3", 3352, 90, false, H100},
	{"H100 SXM5", 3352, 90, false, H100},
	{"H100 SXM", 3352, 90, false, H100},
	{"H100 PCIe", 2039, 90, false, H100},
	{"H100 80GB HBM2e", 2039, 90, false, H100},
	{"H100 NVL", 3938, 90, false, H100},
	{"H800", 3352, 90, false, H100},
	{"H800 PCIe", 2039, 90, false, H100},
	{"H20", 4000, 90, false, PRODUCT},
	{"H20 3e", 4800, 90, false, PRODUCT},
	{"H200", 4800, 90, false, PRODUCT},
	{"H200 NVL", 4800, 90, false, PRODUCT},
	{"GH200 480GB", 4000, 90, false, PRODUCT},
	{"GH200 144G HBM3e", 4900, 90, false, PRODUCT},
	{"B200", 8000, 100, false, "NVIDIA DGX B200 data sheet, 64 TB/s by 8"},
	{"GB200", 8000, 100, false, "NVIDIA GB200 NVL72 data sheet"},
	{"B300", 8000, 103, false, "NVIDIA DGX B300 data sheet"},
	{"GB300", 8000, 103, false, "NVIDIA GB300 NVL72 data sheet"},
	{"L2", 300, 89, false, PRODUCT},
	{"L4", 300, 89, false, PRODUCT},
	{"L20", 864, 89, false, PRODUCT},
	{"L40", 864, 89, false, PRODUCT},
	{"L40S", 864, 89, false, PRODUCT},
	{"GB10", 273, 121, false, "NVIDIA DGX Spark data sheet"},
	/* workstation */
	{"Quadro RTX 5000", 448, 75, false, PRODUCT},
	{"Quadro RTX 6000", 672, 75, false, PRODUCT},
	{"Quadro RTX 8000", 672, 75, false, PRODUCT},
	{"RTX A2000", 288, 86, false, PRODUCT},
	{"RTX A4000", 448, 86, false, PRODUCT},
	{"RTX A4500", 640, 86, false, PRODUCT},
	{"RTX A5000", 768, 86, false, PRODUCT},
	{"RTX A5500", 768, 86, false, PRODUCT},
	{"RTX A6000", 768, 86, false, PRODUCT},
	{"RTX 4000 Ada", 360, 89, false, PRODUCT},
	{"RTX 4500 Ada", 432, 89, false, PRODUCT},
	{"RTX 5000 Ada", 576, 89, false, PRODUCT},
	{"RTX 5880 Ada", 960, 89, false, PRODUCT},
	{"RTX 6000 Ada", 960, 89, false, PRODUCT},
	{"RTX PRO 4000 Blackwell", 672, 120, false, PRODUCT},
	{"RTX PRO 4500 Blackwell", 896, 120, false, PRODUCT},
	{"RTX PRO 5000 Blackwell", 1344, 120, false, PRODUCT},
	{"RTX PRO 6000 Blackwell Workstation Edition", 1792, 120, false,
	 PRODUCT},
	{"RTX PRO 6000 Blackwell Max-Q Workstation Edition", 1792, 120, false,
	 PRODUCT},
	{"RTX PRO 6000 Blackwell Server Edition", 1597, 120, false, PRODUCT},
	/* GeForce and Titan: no peer access over PCIe from Turing on */
	{"TITAN V", 653, 70, false, PAGE},
	{"TITAN RTX", 672, 75, true, PAGE},
	{"RTX 2060", 336, 75, true, TURING},
	{"RTX 2060 SUPER", 448, 75, true, TURING},
	{"RTX 2070", 448, 75, true, TURING},
	{"RTX 2070 SUPER", 448, 75, true, TURING},
	{"RTX 2080", 448, 75, true, TURING},
	{"RTX 2080 SUPER", 496, 75, true, TURING},
	{"RTX 2080 Ti", 616, 75, true, TURING},
	{"RTX 3060", 360, 86, true, "NVIDIA product page, the 12 GB edition"},
	{"RTX 3060 Ti", 448, 86, true, PAGE},
	{"RTX 3070", 448, 86, true, AMPERE},
	{"RTX 3070 Ti", 608, 86, true, PAGE},
	{"RTX 3080", 760, 86, true, "NVIDIA GA102 white paper, 10 GB edition"},
	{"RTX 3080 Ti", 912, 86, true, AMPERE},
	{"RTX 3090", 936, 86, true, AMPERE},
	{"RTX 3090 Ti", 1008, 86, true, PAGE},
	{"RTX 4060", 272, 89, true, PAGE},
	{"RTX 4060 Ti", 288, 89, true, PAGE},
	{"RTX 4070", 504, 89, true, PAGE},
	{"RTX 4070 SUPER", 504, 89, true, PAGE},
	{"RTX 4070 Ti", 504, 89, true, PAGE},
	{"RTX 4070 Ti SUPER", 672, 89, true, PAGE},
	{"RTX 4080", 717, 89, true, ADA},
	{"RTX 4080 SUPER", 736, 89, true, PAGE},
	{"RTX 4090", 1008, 89, true, ADA},
	{"RTX 4090 D", 1008, 89, true, PAGE},
	{"RTX 4090 Laptop", 576, 89, true, PAGE},
	{"RTX 5060", 448, 120, true, PAGE},
	{"RTX 5060 Ti", 448, 120, true, PAGE},
	{"RTX 5070", 672, 120, true, BLACKWELL},
	{"RTX 5070 Ti", 896, 120, true, BLACKWELL},
	{"RTX 5080", 960, 120, true, BLACKWELL},
	{"RTX 5090", 1792, 120, true, BLACKWELL},
	{"RTX 5090 D", 1792, 120, true, PAGE},
	{"RTX 5090 Laptop", 896, 120, true, PAGE},
};

#define ROWS (sizeof(table) / sizeof(table[0]))

/* Words that tell no edition apart, besides a memory size. */
static const char *const harmless[] = {
	"nvidia",   "tesla",  "geforce", "quadro",     "gpu",  "series",
	"graphics", "device", "ada",	 "generation", "pcie", "blackwell",
	"edition",  "sxm2",   "sxm6",	 "ac",	       "lc",   "hbm3e",
};

struct words {
	int count;
	char word[WORDS][WORD]; /* small letters */
	bool cut; /* the last one is only a beginning: "Blac..." */
};

/* false: more or longer words than any GPU's name has. */
static bool split(const char *name, struct words *words)
{
	size_t used = 0;

	memset(words, 0, sizeof(*words));
	words->cut = strstr(name, "...");
	for (;; name++) {
		bool inside = isalnum((unsigned char)*name);

		if (inside && (words->count == WORDS || used + 1 == WORD))
			return false;
		if (inside) {
			words->word[words->count][used++] =
				(char)tolower((unsigned char)*name);
			continue;
		}
		if (used)
			words->count++;
		used = 0;
		if (!*name || !strncmp(name, "...", 3))
			return words->count > 0;
	}
}

static bool has(const struct words *words, const char *word)
{
	for (int i = 0; i < words->count; i++)
		if (!strcmp(words->word[i], word))
			return true;
	return false;
}

/* "80gb", "144g": the memory, in a name that says its edition elsewhere. */
static bool is_size(const char *word)
{
	size_t digits = strspn(word, "0123456789");

	return digits &&
	       (!strcmp(word + digits, "gb") || !strcmp(word + digits, "g"));
}

static bool is_harmless(const char *word)
{
	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		if (!strcmp(word, harmless[i]))
			return true;
	return is_size(word);
}

static bool fits(const struct words *row, const struct words *name)
{
	for (int i = 0; i < row->count; i++)
		if (!has(name, row->word[i]) && strcmp(row->word[i], "edition"))
			return false;
	for (int i = 0; i < name->count; i++)
		if (!has(row, name->word[i]) && !is_harmless(name->word[i]))
			return false;
	return true;
}

/* Does the row's name go on as a name that was cut begins? */
static bool goes_on(const struct words *row, const struct words *name)
{
	int from = 0, last;

	while (from < name->count && !has(row, name->word[from]) &&
	       is_harmless(name->word[from]))
		from++;
	last = name->count - 1 - from;
	if (last < 0 || last >= row->count)
		return false;
	for (int i = 0; i < last; i++)
		if (strcmp(row->word[i], name->word[from + i]))
			return false;
	return !strncmp(row->word[last], name->word[from + last],
			strlen(name->word[from + last]));
}

/* nvidia-smi's table cuts names: told only if all that it can be agree. */
static const struct hardware *cut_name(const struct words *name)
{
	const struct hardware *found = NULL;

	for (size_t i = 0; i < ROWS; i++) {
		struct words row;

		if (!split(table[i].name, &row) || !goes_on(&row, name))
			continue;
		if (found && (found->memory_gb_s != table[i].memory_gb_s ||
			      found->capability != table[i].capability))
			return NULL;
		found = &table[i];
	}
	return found;
}

const struct hardware *hardware_named(const char *name)
{
	const struct hardware *found = NULL;
	struct words words;
	int most = 0;

	if (!name || !split(name, &words))
		return NULL;
	if (words.cut)
		return cut_name(&words);
	for (size_t i = 0; i < ROWS; i++) {
		struct words row;

		if (!split(table[i].name, &row) || row.count <= most ||
		    !fits(&row, &words))
			continue;
		found = &table[i];
		most = row.count;
	}
	return found;
}
