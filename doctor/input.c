/* SPDX-License-Identifier: MIT */
/*
 * Reads the files of a case. What a file is, its content says: a JSON object
 * with a model's keys is a config; any other text goes, line by line and in
 * constant memory, to the readers of machines, logs and metrics at once, as a
 * pasted report may hold all three, and a config between them: lines from "{"
 * to "}" at the same depth. A file in which nobody finds anything is passed
 * over and kept as such; if all are such, that is an error that says what would
 * do.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "doctor/diagnosis.h"
#include "doctor/lines.h"
#include "machine/local.h"
#include "machine/report.h"

#define PIECE_BYTES (1 << 18)
/* A config is some KiB; what is larger is something else. */
#define CONFIG_MOST_BYTES (4u << 20)
/* One between other lines of a paste. */
#define PASTED_MOST_BYTES (1u << 18)

static const char *const kinds[] = {
	[INPUT_TOPO] = "topo",	     [INPUT_LOG] = "log",
	[INPUT_METRICS] = "metrics", [INPUT_CONFIG] = "config",
	[INPUT_MACHINE] = "machine", [INPUT_UNKNOWN] = "unknown",
};

const char *input_kind_name(enum input_kind kind)
{
	return kinds[kind];
}

/* A config in a paste: the lines from one that is "{" on. */
struct pasted {
	bool open;
	size_t indent, used;
	uint64_t line, first; /* this one, and the one with the "{" */
	bool has_model;
	enum oh_status status; /* why the first was none */
	struct oh_error error;
	struct model model;
	char text[PASTED_MOST_BYTES];
};

/* A file that is being read. */
struct reading {
	const char *name; /* for people */
	int fd;
	struct oh__report *report;
	struct log_reader *log;
	struct metrics_reader *metrics;
	struct oh__machine machine; /* what they found */
	struct log_facts facts;
	struct metrics counted;
	bool is_output; /* by its beginning */
	bool unknown; /* nobody found anything */
	struct pasted pasted; /* its text is not cleared */
	struct lines lines;
	size_t used; /* of piece */
	char piece[PIECE_BYTES];
};

static const struct {
	const char *magic;
	unsigned bytes;
	const char *advice;
} no_texts[] = {
	{"\x1f\x8b", 2, "it is compressed: gunzip it first"},
	{"\x28\xb5\x2f\xfd", 4, "it is compressed: unzstd it first"},
	{"\xfd"
	 "7zXZ",
	 5, "it is compressed: unxz it first"},
	{"BZh", 3, "it is compressed: bunzip2 it first"},
	{"PK\x03\x04", 4, "it is an archive: unzip it first"},
	{"GGUF", 4, "it holds a model's weights: give its config.json"},
	{"\x7f"
	 "ELF",
	 4, "it is a program"},
	{"\x89PNG", 4, "it is a picture: paste the text"},
	{"\xff\xd8\xff", 3, "it is a picture: paste the text"},
	{"%PDF", 4, "it is a PDF: paste the text"},
};

static enum oh_status add_input(struct diagnosis *d, const char *file,
				enum input_kind kind)
{
	if (d->input_count == DIAGNOSIS_INPUTS)
		return OH__FAIL(OH_ERR_INVALID,
				"%s: more than %d inputs; give those that "
				"matter",
				file, DIAGNOSIS_INPUTS);
	d->inputs[d->input_count++] =
		(struct input){.file = file, .kind = kind};
	return OH_OK;
}

/* Until the piece is full or the file ends; 0 at its end, -1 on failure. */
static ssize_t fill(struct reading *reading, size_t most)
{
	reading->used = 0;
	while (reading->used < most) {
		ssize_t got = read(reading->fd, reading->piece + reading->used,
				   most - reading->used);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (!got)
			break;
		reading->used += (size_t)got;
	}
	return (ssize_t)reading->used;
}

static enum oh_status fail_read(const struct reading *reading)
{
	return OH__FAIL_CALL(OH_ERR_SYSTEM, "read", errno, "%s: cannot read it",
			     reading->name);
}

static enum oh_status check_text(const struct reading *reading)
{
	if (!reading->used)
		return OH__FAIL(OH_ERR_INVALID, "%s: it is empty",
				reading->name);
	for (size_t i = 0; i < sizeof(no_texts) / sizeof(*no_texts); i++)
		if (reading->used >= no_texts[i].bytes &&
		    !memcmp(reading->piece, no_texts[i].magic,
			    no_texts[i].bytes))
			return OH__FAIL(OH_ERR_INVALID, "%s: %s", reading->name,
					no_texts[i].advice);
	return OH_OK;
}

static bool begins_object(const struct reading *reading)
{
	size_t i = 0;

	if (reading->used >= 3 && !memcmp(reading->piece, "\xef\xbb\xbf", 3))
		i = 3;
	while (i < reading->used && strchr(" \t\r\n", reading->piece[i]) &&
	       reading->piece[i])
		i++;
	return i < reading->used && reading->piece[i] == '{';
}

/* What onehop bench, probe and the others print, as text or as JSON. */
static bool is_output(const struct reading *reading)
{
	static const char *const heads[] = {"# onehop ", "# GPU ",
					    "\"schema_version\""};
	const char *text = reading->piece;
	size_t bytes = reading->used;

	while (bytes && *text && strchr("{ \t\r\n", *text)) {
		text++;
		bytes--;
	}
	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++)
		if (bytes >= strlen(heads[i]) &&
		    !memcmp(text, heads[i], strlen(heads[i])))
			return true;
	return false;
}

static enum oh_status take_model(struct diagnosis *d, const char *name,
				 const struct model *model)
{
	if (d->has_model)
		return OH__FAIL(OH_ERR_INVALID,
				"%s: a second model, the first is in %s; give "
				"one",
				name, d->model.file);
	d->model = *model;
	d->has_model = true;
	return add_input(d, name, INPUT_CONFIG);
}

static enum oh_status read_config(struct diagnosis *d, const char *name,
				  const char *text, size_t bytes)
{
	struct model model;
	enum oh_status status = model_read(name, text, bytes, &model);

	return status ? status : take_model(d, name, &model);
}

/* An object of a paste has ended. What is no config, or a broken one, counts
 * only where nothing else is in the file. */
static void close_pasted(struct pasted *pasted, const char *name)
{
	char place[192];
	enum oh_status status;

	pasted->open = false;
	if (pasted->has_model || !model_is_config(pasted->text, pasted->used))
		return;
	snprintf(place, sizeof(place), "%.140s, object at line %llu", name,
		 (unsigned long long)pasted->first);
	status = model_read(place, pasted->text, pasted->used, &pasted->model);
	pasted->has_model = !status;
	if (!status)
		snprintf(pasted->model.file, sizeof(pasted->model.file), "%s",
			 name);
	if (!status || pasted->status)
		return;
	pasted->status = status;
	pasted->error = *oh_last_error();
}

/* "{" alone in its line opens an object, "}" as far in closes it. */
static void take_pasted(struct pasted *pasted, const char *name,
			const char *line, size_t bytes)
{
	size_t indent = 0;

	if (bytes && *line == '\r') {
		line++;
		bytes--;
	} else {
		pasted->line++;
	}
	while (bytes && (line[bytes - 1] == ' ' || line[bytes - 1] == '\t'))
		bytes--;
	while (indent < bytes && (line[indent] == ' ' || line[indent] == '\t'))
		indent++;
	if (bytes == indent + 1 && line[indent] == '{' &&
	    (!pasted->open || indent <= pasted->indent)) {
		pasted->open = true;
		pasted->indent = indent;
		pasted->used = 0;
		pasted->first = pasted->line;
	}
	if (!pasted->open)
		return;
	if (bytes >= sizeof(pasted->text) - pasted->used) {
		pasted->open = false;
		return;
	}
	memcpy(pasted->text + pasted->used, line, bytes);
	pasted->used += bytes;
	pasted->text[pasted->used++] = '\n';
	if (bytes == indent + 1 && line[indent] == '}' &&
	    indent == pasted->indent)
		close_pasted(pasted, name);
}

static void take_line(void *context, const char *line, size_t bytes)
{
	struct reading *reading = context;

	take_pasted(&reading->pasted, reading->name, line, bytes);
	oh__report_feed(reading->report, line, bytes);
	log_reader_feed(reading->log, line, bytes);
	metrics_reader_feed(reading->metrics, line, bytes,
			    !reading->lines.unended);
}

static enum oh_status take_machine(struct diagnosis *d,
				   const struct reading *reading)
{
	enum oh_status status =
		oh__machine_merge(&d->machine, &reading->machine);

	d->has_machine = true;
	return status ? status : add_input(d, reading->name, INPUT_TOPO);
}

static enum oh_status take_log(struct diagnosis *d, struct reading *reading)
{
	struct log_facts *facts = &reading->facts;
	enum oh_status status = OH_OK;

	snprintf(facts->file, sizeof(facts->file), "%s", reading->name);
	if (d->has_log)
		status = log_merge(&d->log, facts);
	else
		d->log = *facts;
	d->has_log = true;
	return status ? status : add_input(d, reading->name, INPUT_LOG);
}

static enum oh_status take_metrics(struct diagnosis *d,
				   const struct reading *reading)
{
	if (d->has_metrics)
		return OH__FAIL(OH_ERR_INVALID,
				"%s: a second set of metrics, the first is in "
				"%s; give one",
				reading->name, d->metrics.file);
	d->metrics = reading->counted;
	snprintf(d->metrics.file, sizeof(d->metrics.file), "%s", reading->name);
	d->has_metrics = true;
	return add_input(d, reading->name, INPUT_METRICS);
}

/* The reader does not know the file's name. */
static bool finish_metrics(struct reading *reading)
{
	struct oh_error error;

	if (metrics_reader_finish(reading->metrics, &reading->counted))
		return true;
	/* a copy: the message is not to be written over itself */
	error = *oh_last_error();
	OH__FAIL(OH_ERR_INVALID, "%s: %.400s", reading->name, error.message);
	return false;
}

/* Ends all readers, whatever one of them says; the first failure counts. */
static enum oh_status finish(struct reading *reading, bool *machine)
{
	enum oh_status status = OH_OK;
	struct oh_error first = *oh_last_error();

	*machine = false;
	if (reading->report)
		status = oh__report_finish(reading->report, &reading->machine,
					   machine);
	if (status)
		first = *oh_last_error();
	if (reading->log)
		log_reader_finish(reading->log, &reading->facts);
	if (reading->metrics && !finish_metrics(reading) && !status) {
		status = OH_ERR_INVALID;
		first = *oh_last_error();
	}
	reading->report = NULL;
	reading->log = NULL;
	reading->metrics = NULL;
	oh__error_restore(&first);
	return status;
}

static enum oh_status take_all(struct diagnosis *d, struct reading *reading)
{
	bool machine;
	enum oh_status status = finish(reading, &machine);
	bool log = reading->facts.engine != LOG_NONE;

	if (!status && machine)
		status = take_machine(d, reading);
	if (!status && log)
		status = take_log(d, reading);
	if (!status && reading->counted.found)
		status = take_metrics(d, reading);
	if (!status && reading->pasted.has_model)
		status = take_model(d, reading->name, &reading->pasted.model);
	if (status || machine || log || reading->counted.found ||
	    reading->pasted.has_model)
		return status;
	if (reading->pasted.status) {
		oh__error_restore(&reading->pasted.error);
		return reading->pasted.status;
	}
	reading->unknown = true;
	return OH_OK;
}

static void warn(struct diagnosis *d, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void warn(struct diagnosis *d, const char *format, ...)
{
	va_list args;

	if (d->warning_count == 2 * DIAGNOSIS_INPUTS)
		return;
	va_start(args, format);
	vsnprintf(d->warnings[d->warning_count++], sizeof(d->warnings[0]),
		  format, args);
	va_end(args);
}

static void warn_of_cuts(struct diagnosis *d, const struct reading *reading)
{
	const struct lines *lines = &reading->lines;

	if (lines->cut)
		warn(d,
		     "%.120s:%llu: %llu line%s longer than %d bytes, here the "
		     "first: what is behind these was not read",
		     reading->name, (unsigned long long)lines->first_cut,
		     (unsigned long long)lines->cut,
		     lines->cut == 1 ? " is" : "s are", LINES_LONGEST);
	if (reading->counted.cut && lines->unended)
		warn(d,
		     "%.120s:%llu: the text ends within this line of metrics, "
		     "which was left out: scrape again",
		     reading->name, (unsigned long long)lines->line);
}

static enum oh_status read_lines(struct diagnosis *d, struct reading *reading,
				 const char *text, size_t bytes)
{
	enum oh_status status;

	lines_begin(&reading->lines, take_line, reading);
	lines_feed(&reading->lines, text, bytes);
	while (reading->used) {
		if (fill(reading, PIECE_BYTES) < 0)
			return fail_read(reading);
		lines_feed(&reading->lines, reading->piece, reading->used);
	}
	lines_end(&reading->lines);
	status = take_all(d, reading);
	warn_of_cuts(d, reading);
	return status;
}

/* A config, or a paste that begins with one: what is wrong with a config alone
 * is what it says as a whole. */
static enum oh_status read_config_first(struct diagnosis *d,
					struct reading *reading,
					const char *text, size_t bytes)
{
	enum oh_status status = read_config(d, reading->name, text, bytes);
	int warnings = d->warning_count;
	struct oh_error error;

	if (!status)
		return OH_OK;
	error = *oh_last_error();
	if (!read_lines(d, reading, text, bytes) && !reading->unknown)
		return OH_OK;
	reading->unknown = false;
	d->warning_count = warnings;
	oh__error_restore(&error);
	return status;
}

/* An object: a config, or a log whose lines are objects. */
static enum oh_status read_object(struct diagnosis *d, struct reading *reading)
{
	char *text = malloc(CONFIG_MOST_BYTES);
	size_t bytes = 0;
	enum oh_status status = OH_OK;

	if (!text)
		return OH__FAIL(OH_ERR_NO_MEMORY, "no memory to read %s",
				reading->name);
	do {
		memcpy(text + bytes, reading->piece, reading->used);
		bytes += reading->used;
		if (bytes + PIECE_BYTES > CONFIG_MOST_BYTES)
			break;
		if (fill(reading, PIECE_BYTES) < 0)
			status = fail_read(reading);
	} while (!status && reading->used);
	if (!status && model_is_config(text, bytes))
		status = read_config_first(d, reading, text, bytes);
	else if (!status)
		status = read_lines(d, reading, text, bytes);
	free(text);
	return status;
}

static enum oh_status read_open(struct diagnosis *d, struct reading *reading)
{
	enum oh_status status;

	if (fill(reading, PIECE_BYTES) < 0)
		return fail_read(reading);
	status = check_text(reading);
	if (status)
		return status;
	reading->is_output = is_output(reading);
	if (begins_object(reading))
		return read_object(d, reading);
	return read_lines(d, reading, reading->piece, reading->used);
}

static enum oh_status open_file(const char *file, int *fd)
{
	struct stat about;

	if (!strcmp(file, "-")) {
		*fd = dup(STDIN_FILENO);
		return *fd >= 0 ? OH_OK
				: OH__FAIL_CALL(OH_ERR_SYSTEM, "dup", errno,
						"no standard input");
	}
	*fd = open(file, O_RDONLY | O_CLOEXEC);
	if (*fd < 0)
		return OH__FAIL_CALL(OH_ERR_SYSTEM, "open", errno,
				     "%s: cannot open it", file);
	if (!fstat(*fd, &about) && S_ISDIR(about.st_mode)) {
		close(*fd);
		return OH__FAIL(OH_ERR_INVALID,
				"%s: it is a directory; give the files in it",
				file);
	}
	return OH_OK;
}

static enum oh_status read_file(struct diagnosis *d, const char *file,
				struct reading *reading)
{
	enum oh_status status;
	bool machine;

	memset(reading, 0, offsetof(struct reading, pasted.text));
	reading->name = strcmp(file, "-") ? file : "standard input";
	status = open_file(file, &reading->fd);
	if (status)
		return status;
	reading->report = oh__report_create(reading->name);
	reading->log = log_reader_create();
	reading->metrics = metrics_reader_create();
	if (reading->report && reading->log && reading->metrics)
		status = read_open(d, reading);
	else
		status = OH__FAIL(OH_ERR_NO_MEMORY, "no memory to read %s",
				  reading->name);
	close(reading->fd);
	finish(reading, &machine);
	if (status || !reading->unknown)
		return status;
	status = add_input(d, reading->name, INPUT_UNKNOWN);
	if (!status)
		d->inputs[d->input_count - 1].is_output = reading->is_output;
	return status;
}

static bool all_are_unknown(const struct diagnosis *d)
{
	for (int i = 0; i < d->input_count; i++)
		if (d->inputs[i].kind != INPUT_UNKNOWN)
			return false;
	return d->input_count;
}

enum oh_status diagnosis_read(struct diagnosis *diagnosis, char **files,
			      int count)
{
	struct reading *reading = malloc(sizeof(*reading));
	enum oh_status status = OH_OK;

	if (!reading)
		return OH__FAIL(OH_ERR_NO_MEMORY, "no memory to read files");
	for (int i = 0; i < count && !status; i++)
		status = read_file(diagnosis, files[i], reading);
	free(reading);
	if (!status && all_are_unknown(diagnosis))
		return OH__FAIL(
			OH_ERR_INVALID,
			"%s: nothing in it was recognised%s; give a text "
			"with nvidia-smi topo -m, a log of vLLM, SGLang "
			"or NCCL, their /metrics, or a model's config.json%s",
			diagnosis->inputs[0].file,
			diagnosis->inputs[0].is_output
				? ": what onehop prints is not read"
				: "",
			diagnosis->inputs[0].is_output
				? "; --here looks at this machine"
				: "");
	return status;
}

enum oh_status diagnosis_read_this_machine(struct diagnosis *diagnosis)
{
	struct oh__machine *here = calloc(1, sizeof(*here));
	enum oh_status status;

	if (!here)
		return OH__FAIL(OH_ERR_NO_MEMORY, "no memory for a machine");
	status = oh__machine_read_nvml(here);
	if (!status) {
		oh__machine_read_host(here, "");
		oh__machine_read_variables(here);
		status = oh__machine_merge(&diagnosis->machine, here);
	}
	free(here);
	if (status)
		return status;
	diagnosis->has_machine = true;
	return add_input(diagnosis, "this machine", INPUT_MACHINE);
}
