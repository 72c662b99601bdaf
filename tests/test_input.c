/* SPDX-License-Identifier: MIT */
/*
 * What the doctor makes of files: each kind and several in one, what is no
 * text, what is too much or belongs to another run; and how a stream is cut
 * into lines. Files are written to a directory of this test's own.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor/diagnosis.h"
#include "doctor/lines.h"
#include "tap.h"

#define TOPO                                                                   \
	"\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n"                          \
	"GPU0\t X \tPHB\t0-31\t0\nGPU1\tPHB\t X \t0-31\t0\n"
#define LOG                                                                    \
	"INFO 07-01 10:00:00 [api_server.py:1395] vLLM API server version "    \
	"0.9.2\n"
#define METRICS                                                                \
	"vllm:inter_token_latency_seconds_count 4\n"                           \
	"vllm:inter_token_latency_seconds_sum 0.04\n"
#define CONFIG                                                                 \
	"{\n  \"model_type\": \"newton\",\n  \"hidden_size\": 64,\n"           \
	"  \"layers\": {\n    \"a\": 1\n  },\n"                                \
	"  \"num_hidden_layers\": 2\n}\n"
#define MODEL(name, tp)                                                        \
	"Initializing a V1 LLM engine (v0.9.2) with config: model='" name      \
	"', tensor_parallel_size=" #tp ", x=1\n"
#define PAIR(from, to)                                                         \
	"n:5:6 [0] NCCL INFO Channel 00 : " #from "[0] -> " #to                \
	"[0] via P2P/IPC\n"
#define OFF(reason)                                                            \
	"WARNING [custom_all_reduce.py:136] Custom allreduce is disabled "     \
	"because " reason "\n"

static struct diagnosis d;

static void write_bytes(const char *name, const char *bytes, size_t count)
{
	FILE *file = fopen(name, "w");

	if (!file || fwrite(bytes, 1, count, file) != count)
		tap_ok(false, "%s is written", name);
	if (file)
		fclose(file);
}

static void write_text(const char *name, const char *text)
{
	write_bytes(name, text, strlen(text));
}

static enum oh_status read_files(char **files, int count)
{
	memset(&d, 0, sizeof(d));
	return diagnosis_read(&d, files, count);
}

static enum oh_status read_one(const char *name)
{
	char copy[64], *files[] = {copy};

	snprintf(copy, sizeof(copy), "%s", name);
	return read_files(files, 1);
}

static enum oh_status read_two(const char *a, const char *b)
{
	char first[] = "a", second[] = "b", *files[] = {first, second};

	write_text("a", a);
	write_text("b", b);
	return read_files(files, 2);
}

/* The kinds that a text is taken for, in order: "topo log". */
static void is_kinds(const char *what, const char *due)
{
	char got[256] = "";

	for (int i = 0; i < d.input_count; i++)
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s",
			 i ? " " : "", input_kind_name(d.inputs[i].kind));
	tap_ok(!strcmp(got, due), "%s: %s (got %s)", what, due, got);
}

static void refused(enum oh_status status, enum oh_status due,
		    const char *words, const char *what)
{
	const char *message = oh_last_error()->message;

	tap_ok(status == due && strstr(message, words), "%s: %s", what,
	       status ? message : "is read");
}

static void try_kinds(void)
{
	static const struct {
		const char *what, *text, *kinds;
	} rows[] = {
		{"a matrix", TOPO, "topo"},
		{"a log", LOG, "log"},
		{"metrics", METRICS, "metrics"},
		{"a config", CONFIG, "config"},
		{"a config behind blanks and a mark",
		 "\xef\xbb\xbf \r\n" CONFIG, "config"},
		{"all in one",
		 "$ a\n" TOPO LOG METRICS "$ cat c\n" CONFIG "$\n",
		 "topo log metrics config"},
		{"a config first", CONFIG LOG TOPO, "topo log config"},
		{"a config in a fence", "```json\n" CONFIG "```\n", "config"},
		{"one that is indented",
		 "x:\n  {\n   \"hidden_size\": 64,\n"
		 "   \"num_hidden_layers\": 2\n  }\n",
		 "config"},
		{"one without a last line's end",
		 "$ cat c\n{\n\"hidden_size\": 6,\n\"num_hidden_layers\": "
		 "2\n}",
		 "config"},
		{"one behind an object that goes on",
		 "$\n{\n \"a\": [\n" CONFIG, "config"},
		{"a log whose lines are objects",
		 "{\"log\":\"vLLM API server version 0.9.2\\n\",\"stream\":"
		 "\"stderr\"}\n",
		 "log"},
		{"an object of something else before a log",
		 "{\n  \"auths\": {}\n}\n" LOG, "log"},
		{"a broken config beside a log",
		 "$\n{\n\"hidden_size\": 0,\n\"num_hidden_layers\": 2\n}\n" LOG,
		 "log"},
		{"carriage returns",
		 "\tGPU0\tGPU1\r\nGPU0\t X \tPHB\r\nGPU1\t"
		 "PHB\t X \r\n" METRICS,
		 "topo metrics"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		write_text("input", rows[i].text);
		if (read_one("input"))
			tap_note("%s", oh_last_error()->message);
		is_kinds(rows[i].what, rows[i].kinds);
	}
	write_text("input", "$\n\n" CONFIG);
	read_one("input");
	tap_ok(d.has_model && d.model.layers == 2 &&
		       !strcmp(d.model.file, "input"),
	       "the model of a paste has its file's name");
}

static void try_no_text(void)
{
	static const struct {
		const char *what, *bytes;
		size_t count; /* 0: up to its end */
		const char *words;
	} rows[] = {
		{"empty", "", 0, "it is empty"},
		{"gzip", "\x1f\x8b\x08\x00", 4, "gunzip"},
		{"zstd", "\x28\xb5\x2f\xfd\x04", 5, "unzstd"},
		{"GGUF", "GGUF\x03\x00", 6, "config.json"},
		{"a program",
		 "\x7f"
		 "ELF\x02",
		 5, "a program"},
		{"prose", "nothing here\n", 0,
		 "nothing in it was recognised; give a text with "
		 "nvidia-smi topo -m, a log of vLLM, SGLang or NCCL, their "
		 "/metrics, or a model's config.json"},
		{"an object", "{\"a\":1}", 0,
		 "nothing in it was recognised; give a text with"},
		{"a report of the probe",
		 "# GPU 0  0000:18:00.0  NVIDIA H200\n", 0,
		 "recognised: what onehop prints is not read; give a text"},
		{"one in JSON", "{\n  \"schema_version\": 1\n}\n", 0,
		 "what onehop prints is not read; give a text"},
		{"a table of the benchmark", "# onehop    0.1.0\n", 0,
		 "config.json; --here looks at this machine"},
		{"zeros", "\0\0\0\0\0\0\0\0", 8, "nothing in it"},
		{"a brace", "{", 0, "nothing in it"},
		{"a config that is cut",
		 "{\"model_type\":\"llama\",\"hidden_size\":64", 38,
		 "not JSON"},
		{"a pasted one that is broken",
		 "$ cat\n{\n\"hidden_size\": 0,\n\"num_hidden_layers\": 2\n}\n",
		 0, "object at line 2: no model: hidden_size"},
		{"a pasted one that is cut", "$ cat\n{\n\"hidden_size\": 6,\n",
		 0, "nothing in it"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		write_bytes("input", rows[i].bytes,
			    rows[i].count ? rows[i].count
					  : strlen(rows[i].bytes));
		refused(read_one("input"), OH_ERR_INVALID, rows[i].words,
			rows[i].what);
	}
	write_text("input", "# Notes\n");
	tap_ok(read_one("input") && !strstr(oh_last_error()->message, "onehop"),
	       "of other files nothing is said of commands");
	mkdir("directory", 0700);
	refused(read_one("directory"), OH_ERR_INVALID, "give the files in it",
		"a directory");
	refused(read_one("absent"), OH_ERR_SYSTEM, "absent: cannot open it",
		"a file that is not there");
	write_text("closed", LOG);
	chmod("closed", 0);
	if (geteuid())
		refused(read_one("closed"), OH_ERR_SYSTEM, "cannot open it",
			"a file that may not be read");
	else
		tap_skip("a file that may not be read", "root reads all");
}

/* A file of something else beside those that are known. */
static void try_unknown(void)
{
	static const char other[] = "{\n  \"tp\": 2\n}\n";

	tap_ok(!read_two(TOPO, other), "a matrix and something else");
	is_kinds("a matrix and something else", "topo unknown");
	tap_ok(!read_two("prose\n", LOG) && d.has_log, "something else first");
	is_kinds("something else first", "unknown log");
	refused(read_two("prose\n", other), OH_ERR_INVALID,
		"a: nothing in it was recognised", "nothing but such files");
	refused(read_two(LOG, "{\"model_type\":\"llama\",\"hidden_size\":64"),
		OH_ERR_INVALID, "b:1: not JSON",
		"a log and a config that is cut");
}

/* Noise of every kind, alone and before a log. */
static void try_noise(void)
{
	size_t count = 3 << 20;
	char *noise = malloc(count + sizeof(LOG));
	unsigned state = 1;

	for (size_t i = 0; i < count; i++) {
		state = state * 1103515245 + 12345;
		noise[i] = (char)(state >> 23);
	}
	noise[0] = noise[1] = 'x';
	write_bytes("input", noise, count);
	refused(read_one("input"), OH_ERR_INVALID, "nothing in it", "noise");
	noise[count - 1] = '\n';
	memcpy(noise + count, LOG, sizeof(LOG) - 1);
	write_bytes("input", noise, count + sizeof(LOG) - 1);
	tap_ok(!read_one("input") && d.has_log, "noise before a log");
	/* no end of line; the log's one begins in what is skipped */
	memset(noise, 'a', count);
	write_bytes("input", noise, count);
	refused(read_one("input"), OH_ERR_INVALID, "nothing in it",
		"one line without an end");
	noise[count - 1] = '\n';
	write_bytes("input", noise, count + sizeof(LOG) - 1);
	tap_ok(!read_one("input") && d.has_log, "a long line before a log");
	/* an object that never ends is given up, and the next one is read */
	memset(noise, '\n', count);
	memcpy(noise, "$\n{", 3);
	memcpy(noise + count - sizeof(CONFIG), "\n" CONFIG, sizeof(CONFIG));
	write_bytes("input", noise, count);
	tap_ok(!read_one("input") && d.has_model,
	       "an object without an end before a config");
	free(noise);
}

/* In UTF-16, low byte first or high byte first, with a mark or without. */
static void try_wide(void)
{
	static const char text[] = LOG METRICS;
	char wide[2 * sizeof(text) + 2];

	for (int kind = 0; kind < 4; kind++) {
		bool high_first = kind & 1, mark = kind & 2;
		size_t used = 0;

		if (mark) {
			memcpy(wide, high_first ? "\xfe\xff" : "\xff\xfe", 2);
			used = 2;
		}
		for (size_t i = 0; text[i]; i++) {
			wide[used + high_first] = text[i];
			wide[used + !high_first] = 0;
			used += 2;
		}
		write_bytes("input", wide, used);
		read_one("input");
		is_kinds(mark ? "UTF-16" : "UTF-16 without a mark",
			 "log metrics");
		/* the last unit is cut in two */
		write_bytes("input", wide, used - 1);
		read_one("input");
		is_kinds("cut in a unit", "log metrics");
	}
}

static void try_counts(void)
{
	char name[] = "input", *files[DIAGNOSIS_INPUTS + 1];

	write_text("input", LOG);
	for (int i = 0; i <= DIAGNOSIS_INPUTS; i++)
		files[i] = name;
	tap_ok(!read_files(files, DIAGNOSIS_INPUTS), "32 inputs");
	refused(read_files(files, DIAGNOSIS_INPUTS + 1), OH_ERR_INVALID,
		"more than 32 inputs", "33 inputs");
	refused(read_two(CONFIG, CONFIG), OH_ERR_INVALID,
		"b: a second model, the first is in a;", "two models");
	refused(read_two(LOG CONFIG, CONFIG), OH_ERR_INVALID,
		"b: a second model, the first is in a;",
		"two models, one in a paste");
	refused(read_two(METRICS, METRICS), OH_ERR_INVALID,
		"b: a second set of metrics, the first is in a;",
		"two metrics");
	refused(read_two(METRICS "vllm:inter_token_latency_seconds_bucket{le="
				 "\"1\"} 9\n",
			 LOG),
		OH_ERR_INVALID, "a: metrics line 3", "metrics that are broken");
}

static void try_runs(void)
{
	static const struct {
		const char *what, *a, *b;
		const char *words; /* NULL: of one run */
	} rows[] = {
		{"two halves of a log", LOG MODEL("o/m", 2), PAIR(0, 1), NULL},
		{"the same model by name and path", LOG MODEL("o/m-7b", 2),
		 MODEL("/hub/models--o--M-7B/snapshots/1", 2), NULL},
		{"a kernel that is on, and that failed", LOG,
		 "(Worker_TP0 pid=7) INFO [custom_all_reduce.py:196] "
		 "Registering 8 cuda graph addresses\n",
		 NULL},
		{"another size", LOG MODEL("m", 2), MODEL("m", 4),
		 "the tensor-parallel size is 2 in a, 4 in b"},
		{"another version", LOG, "vLLM API server version 0.10.0\n",
		 "the version is 0.9.2 in a, 0.10.0 in b"},
		{"another engine", LOG,
		 "[2026-03-17 17:35:07 TP0] Init torch distributed begin.\n",
		 "a is a log of vllm, b one of sglang"},
		{"another model", LOG MODEL("o/m-7b", 2), MODEL("o/k", 2),
		 "the model is o/m-7b in a, o/k in b"},
		{"another NCCL", "vLLM is using nccl==2.27.5\n",
		 "n:5:6 [0] NCCL INFO NCCL version 2.25.1+cuda12.2\n",
		 "NCCL is 2.27.5 in a, 2.25.1 in b"},
		{"on and off",
		 "(Worker_TP0 pid=7) INFO [custom_all_reduce.py:196] "
		 "Registering 8 cuda graph addresses\n",
		 OFF("your platform lacks GPU P2P"), "on in one of a and b"},
		{"off by two rules", OFF("your platform lacks GPU P2P"),
		 OFF("it's not supported on more than two PCIe-only GPUs"),
		 "off by p2p_failed in a, by pcie_more_than_two in b"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum oh_status status = read_two(rows[i].a, rows[i].b);

		if (rows[i].words)
			refused(status, OH_ERR_INVALID, rows[i].words,
				rows[i].what);
		else
			tap_ok(!status && d.input_count == 2, "%s: one run%s",
			       rows[i].what,
			       status ? oh_last_error()->message : "");
	}
	tap_ok(!read_two(LOG PAIR(0, 1) PAIR(1, 0), PAIR(1, 0) PAIR(2, 0)) &&
		       d.log.pair_count == 3,
	       "a pair of both files is one: %d", d.log.pair_count);
}

static void *feed_fifo(void *text)
{
	write_text("fifo", text);
	return NULL;
}

/* What has no size and cannot be read again. */
static void try_streams(void)
{
	static char log[] = LOG METRICS, config[] = CONFIG;
	pthread_t feeder;
	int kept = dup(STDIN_FILENO), file;

	mkfifo("fifo", 0600);
	pthread_create(&feeder, NULL, feed_fifo, log);
	read_one("fifo");
	pthread_join(feeder, NULL);
	is_kinds("a FIFO", "log metrics");
	pthread_create(&feeder, NULL, feed_fifo, config);
	read_one("fifo");
	pthread_join(feeder, NULL);
	is_kinds("a FIFO with a config", "config");
	write_text("input", log);
	file = open("input", O_RDONLY);
	dup2(file, STDIN_FILENO);
	close(file);
	read_one("-");
	is_kinds("standard input", "log metrics");
	tap_ok(!strcmp(d.inputs[0].file, "standard input"), "by its name");
	close(STDIN_FILENO);
	refused(read_one("-"), OH_ERR_SYSTEM, "no standard input",
		"none that is open");
	dup2(kept, STDIN_FILENO);
	close(kept);
}

/* Lines as they were given, joined by '|'; a long one by its length. */
static void note_line(void *context, const char *line, size_t bytes)
{
	char *text = context;
	size_t used = strlen(text);

	if (bytes > 64)
		sprintf(text + used, "%zu|", bytes);
	else
		sprintf(text + used, "%.*s|", (int)bytes, line);
}

static void try_lines(void)
{
	static const struct {
		const char *text, *due;
	} rows[] = {
		{"", ""},
		{"a", "a|"},
		{"a\nb\n", "a|b|"},
		{"\n\n", "||"},
		{"a\r\n\r\nb\r", "a||b|"},
		{"a\rb\n", "a|\rb|"},
		{"\ra\r\r\nb\r\rc", "|\ra|b|\r|\rc|"},
		{"\xef\xbb\xbf"
		 "a\n",
		 "a|"},
	};
	static struct lines lines;
	static char longest[3 * LINES_LONGEST];
	char got[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t piece = 3; piece <= 64; piece += 61) {
			size_t bytes = strlen(rows[i].text);

			got[0] = '\0';
			lines_begin(&lines, note_line, got);
			for (size_t at = 0; at < bytes; at += piece)
				lines_feed(&lines, rows[i].text + at,
					   bytes - at < piece ? bytes - at
							      : piece);
			lines_end(&lines);
			tap_ok(!strcmp(got, rows[i].due) && !lines.cut,
			       "lines in pieces of %zu: %s (got %s)", piece,
			       rows[i].due, got);
		}
	memset(longest, 'a', sizeof(longest));
	longest[sizeof(longest) - 3] = '\n';
	for (size_t piece = 1000; piece <= sizeof(longest);
	     piece += sizeof(longest) - 1000) {
		got[0] = '\0';
		lines_begin(&lines, note_line, got);
		for (size_t at = 0; at < sizeof(longest); at += piece) {
			size_t left = sizeof(longest) - at;

			lines_feed(&lines, longest + at,
				   left < piece ? left : piece);
		}
		lines_end(&lines);
		tap_ok(!strcmp(got, "65536|aa|") && lines.cut == 1 &&
			       lines.first_cut == 1 && lines.line == 2,
		       "a line that is too long is cut, in pieces of %zu: %s",
		       piece, got);
	}
}

/* text with other ends of its lines */
static void with_ends(const char *text, char end)
{
	size_t bytes = strlen(text);
	char *copy = strdup(text);

	for (size_t i = 0; i < bytes; i++)
		if (copy[i] == '\n')
			copy[i] = end;
	write_bytes("input", copy, bytes);
	free(copy);
}

/* Lines that end with a carriage return or a zero byte, for all readers. */
static void try_ends(void)
{
	static const char ends[] = {'\n', '\r', '\0'};

	for (size_t i = 0; i < sizeof(ends); i++) {
		with_ends(TOPO LOG METRICS CONFIG, ends[i]);
		if (read_one("input"))
			tap_note("%s", oh_last_error()->message);
		is_kinds("lines with other ends", "topo log metrics config");
		tap_ok(d.machine.gpus == 2 && !d.warning_count &&
			       d.metrics.tokens == 4 && d.metrics.mean_ms > 0,
		       "all of it is read, by ends of %d", ends[i]);
		tap_ok(d.metrics.line == (i ? 1 : 5), "its place is line %llu",
		       (unsigned long long)d.metrics.line);
	}
}

/* Its zeros are no ends: a shell appended to a text in bytes. */
static void try_wide_behind_bytes(void)
{
	static const char text[] = TOPO;
	char both[2 * sizeof(text) + 8] = "prose\n";
	size_t used = strlen(both);

	for (size_t i = 0; text[i]; i++) {
		both[used++] = text[i];
		both[used++] = '\0';
	}
	write_bytes("input", both, used);
	tap_ok(!read_one("input") && d.machine.gpus == 2,
	       "UTF-16 behind a text in bytes");
}

static void warned(const char *what, const char *due)
{
	tap_ok(d.warning_count == (due != NULL) &&
		       (!due || !strcmp(d.warnings[0], due)),
	       "%s: %s", what, d.warning_count ? d.warnings[0] : "no warning");
}

/* What is left out of a file that is read is said. */
static void try_warnings(void)
{
	static const char off[] = OFF("your platform lacks GPU P2P");
	static const char bar[] = "Loading shards: 10%\r";
	size_t bars = 4000, bytes = bars * strlen(bar);
	char *text = malloc(strlen(LOG) + 2 * bytes + sizeof(off));

	/* a bar that writes over itself, of 80 KB */
	strcpy(text, LOG);
	for (size_t i = 0; i < bars; i++)
		memcpy(text + strlen(LOG) + i * strlen(bar), bar, strlen(bar));
	strcpy(text + strlen(LOG) + bytes, off);
	write_text("input", text);
	read_one("input");
	tap_ok(d.log.custom == LOG_CUSTOM_DISABLED && d.log.line.custom == 2,
	       "a line behind a progress bar is read, as line %llu",
	       (unsigned long long)d.log.line.custom);
	warned("a progress bar", NULL);
	/* as one line it is too long */
	memset(text + strlen(LOG), 'a', bytes);
	write_text("input", text);
	read_one("input");
	tap_ok(d.log.custom == LOG_CUSTOM_UNKNOWN,
	       "what is behind 64 KiB is not");
	warned("a long line", "input:2: 1 line is longer than 65536 bytes, "
			      "here the first: what is behind these was not "
			      "read");
	free(text);

	write_bytes("input", METRICS, strlen(METRICS) - 1);
	read_one("input");
	tap_ok(d.metrics.tokens == 4 && !(d.metrics.mean_ms > 0),
	       "a sum that may be cut is not read");
	warned("metrics that are cut",
	       "input:2: the text ends within this line of metrics, which was "
	       "left out: scrape again");
	write_text("input", METRICS "$");
	read_one("input");
	warned("metrics before a prompt", NULL);
	write_bytes("input", LOG, strlen(LOG) - 1);
	read_one("input");
	tap_ok(d.has_log, "a log's last line needs no end");
	warned("a log without a last line's end", NULL);
}

int main(void)
{
	char directory[] = "/tmp/onehop-input-XXXXXX";
	static const char *const left[] = {"input", "a", "b", "closed", "fifo"};

	setenv("ONEHOP_LOG", "off", 0);
	if (!mkdtemp(directory) || chdir(directory))
		tap_skip_all("no directory for files");
	try_kinds();
	try_no_text();
	try_unknown();
	try_noise();
	try_wide();
	try_counts();
	try_runs();
	try_streams();
	try_lines();
	try_ends();
	try_wide_behind_bytes();
	try_warnings();
	for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
		unlink(left[i]);
	rmdir("directory");
	if (chdir("/") || rmdir(directory))
		tap_note("%s is left", directory);
	return tap_done();
}
