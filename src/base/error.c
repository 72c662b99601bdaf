/* SPDX-License-Identifier: MIT */
/*
 * Owns the thread-local error record. A record is overwritten by the thread's
 * next failure and by nothing else.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

static _Thread_local struct oh_error record = {
	.call = "",
	.code_name = "",
	.file = "",
};

/* The file without the build machine's directories. */
static const char *short_file(const char *file)
{
	const char *room = strstr(file, "src/");

	return room ? room : file;
}

enum oh_status oh__error_set(enum oh_status status, const char *call, int code,
			     const char *file, int line, const char *format,
			     ...)
{
	const char *name = code ? strerrorname_np(code) : "";
	int used;
	va_list args;

	record.status = status;
	record.call = call;
	record.code = code;
	record.code_name = name ? name : "";
	record.file = short_file(file);
	record.line = line;

	va_start(args, format);
	used = vsnprintf(record.message, sizeof(record.message), format, args);
	va_end(args);
	if (code && used >= 0 && (size_t)used < sizeof(record.message))
		snprintf(record.message + used,
			 sizeof(record.message) - (size_t)used,
			 ": %s failed, errno %d %s (%s)", call, code,
			 record.code_name, strerrordesc_np(code));
	oh__log(OH_LOG_ERROR, "%s: %s", oh_status_name(status), record.message);
	return status;
}

enum oh_status oh__error_set_vendor(enum oh_status status, const char *call,
				    int code, const char *code_name,
				    const char *text, const char *file,
				    int line)
{
	record = (struct oh_error){
		.status = status,
		.call = call,
		.code = code,
		.code_name = code_name ? code_name : "",
		.file = short_file(file),
		.line = line,
	};
	snprintf(record.message, sizeof(record.message),
		 "%s failed, code %d%s%s%s%s%s", call, code,
		 code_name ? " " : "", record.code_name, text ? " (" : "",
		 text ? text : "", text ? ")" : "");
	oh__log(OH_LOG_ERROR, "%s: %s", oh_status_name(status), record.message);
	return status;
}

void oh__error_restore(const struct oh_error *saved)
{
	record = *saved;
}

const struct oh_error *oh_last_error(void)
{
	return &record;
}
