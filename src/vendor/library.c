/* SPDX-License-Identifier: MIT */
/*
 * Owns how shared libraries are opened: flags, the search for symbols, and what
 * is said when something is missing. Nothing is ever closed again. Keeps no
 * state; whoever owns a table also owns that it is filled once.
 */
#include "vendor/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"

#define WORD_LETTERS                                                           \
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

enum oh_status oh__vendor_absent(const char *format, ...)
{
	struct oh_error record = {
		.status = OH_ERR_UNSUPPORTED,
		.call = "",
		.code_name = "",
		.file = "",
	};
	va_list args;

	va_start(args, format);
	vsnprintf(record.message, sizeof(record.message), format, args);
	va_end(args);
	oh__log(OH_LOG_INFO, "%s: %s", oh_status_name(record.status),
		record.message);
	/* sets the record and logs nothing */
	oh__error_restore(&record);
	return record.status;
}

/*
 * Whether dlopen found no such file, rather than one that it could not load.
 * There is no code for that, only the text: "FILE: cannot open shared object
 * file: No such file or directory". It begins with another file's name where a
 * library that this one needs is missing. Both halves are translated, the
 * second by the same strerror.
 */
static bool is_absent(const char *file, const char *text)
{
	char buffer[128];
	size_t length = strlen(file);
	const char *reason = strerror_r(ENOENT, buffer, sizeof(buffer));

	return !strncmp(text, file, length) && text[length] == ':' &&
	       strstr(text, reason);
}

/* The path that the loader found, for people; the soname if it won't say. */
static const char *path_of(void *handle, const char *file)
{
	struct link_map *map = NULL;

	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) || !map || !map->l_name[0])
		return file;
	return map->l_name;
}

/* dlsym's answer goes into the table as bytes: ISO C converts no object
 * pointer to a function pointer, POSIX makes them alike. */
static void store(void *table, size_t offset, void *symbol)
{
	memcpy((char *)table + offset, &symbol, sizeof(symbol));
}

/* The first required symbol that the library lacks, or NULL. */
static const struct oh__symbol *find_missing(const struct oh__library *library,
					     void *handle)
{
	for (size_t i = 0; i < library->count; i++)
		if (library->symbols[i].required &&
		    !dlsym(handle, library->symbols[i].name))
			return &library->symbols[i];
	return NULL;
}

static void fill(const struct oh__library *library, void *handle, void *table)
{
	for (size_t i = 0; i < library->count; i++) {
		const struct oh__symbol *symbol = &library->symbols[i];
		void *address = dlsym(handle, symbol->name);

		if (!address)
			oh__log(OH_LOG_DEBUG, "missing symbol %s",
				symbol->name);
		store(table, symbol->offset, address);
	}
}

static enum oh_status explain_dlopen(const struct oh__library *library)
{
	const char *file = library->file;
	const char *text = dlerror();

	if (!text)
		text = "no reason given";
	if (is_absent(file, text))
		return oh__vendor_absent("%s is not installed, or not where "
					 "the loader looks: %s",
					 file, library->remedy);
	return OH__FAIL(OH_ERR_SYSTEM,
			"%s cannot be loaded: %s; reinstall what it belongs to",
			file, text);
}

enum oh_status oh__library_load(const struct oh__library *library, void *table)
{
	const struct oh__symbol *missing;
	const char *path;
	void *handle;

	/* RTLD_NOW: what it lacks itself shows here, not in the middle of a
	 * call */
	handle = dlopen(library->file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!handle)
		return explain_dlopen(library);
	path = path_of(handle, library->file);
	/* all or nothing: the table is written only when it will be used */
	missing = find_missing(library, handle);
	if (missing)
		return OH__FAIL(OH_ERR_SYSTEM,
				"%s has no %s: it is too old, or something "
				"else of that name; install a newer one",
				path, missing->name);
	oh__log(OH_LOG_DEBUG, "library %s", path);
	fill(library, handle, table);
	return OH_OK;
}

const char *oh__library_function_of(const struct oh__library *library,
				    const char *text)
{
	const char *word = text + strcspn(text, WORD_LETTERS);

	while (*word) {
		size_t length = strspn(word, WORD_LETTERS);

		for (size_t i = 0; i < library->count; i++)
			if (strlen(library->symbols[i].name) == length &&
			    !strncmp(library->symbols[i].name, word, length))
				return library->symbols[i].name;
		word += length;
		word += strcspn(word, WORD_LETTERS);
	}
	return text;
}

void *oh__library_find_loaded(const char *file, const char *symbol)
{
	void *handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
	void *address;

	if (!handle)
		return NULL;
	address = dlsym(handle, symbol);
	/* whoever loaded it keeps it; drivers do not go away */
	dlclose(handle);
	return address;
}
