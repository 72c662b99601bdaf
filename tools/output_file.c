/* SPDX-License-Identifier: MIT */
/*
 * A file is written under a name of its own in the same folder, brought to
 * the disk, and renamed: at every moment its place holds the old one or the
 * new one, whole.
 */
#include "tools/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool complain(const char *who, const char *path, const char *what)
{
	fprintf(stderr, "%s: %s: %s: %s\n", who, path, what, strerror(errno));
	return false;
}

/* A place that is no file cannot be replaced by one. */
static bool is_special(const char *path)
{
	struct stat status;

	return !stat(path, &status) && !S_ISREG(status.st_mode);
}

/* Where the file really is, and a name beside it. */
static bool names(const char *path, char *place, char *beside)
{
	char resolved[PATH_MAX];
	const char *final = realpath(path, resolved) ? resolved : path;

	return snprintf(place, PATH_MAX, "%s", final) < PATH_MAX &&
	       snprintf(beside, PATH_MAX, "%s.XXXXXX", final) < PATH_MAX;
}

static int open_beside(const char *who, const char *path, char *place,
		       char *beside)
{
	int fd;

	if (!names(path, place, beside)) {
		errno = ENAMETOOLONG;
		complain(who, path, "cannot be written");
		return -1;
	}
	fd = mkostemp(beside, O_CLOEXEC);
	if (fd < 0)
		complain(who, path, "cannot be written");
	return fd;
}

/* The name that a path has without links. Of a file that is not there only its
 * folder need be. */
static bool resolve(const char *path, char *resolved)
{
	const char *slash = strrchr(path, '/'),
		   *name = slash ? slash + 1 : path;
	char folder[PATH_MAX];
	size_t used;

	if (realpath(path, resolved))
		return true;
	snprintf(folder, sizeof(folder), "%.*s.", (int)(name - path), path);
	if (!realpath(folder, resolved))
		return false;
	used = strlen(resolved);
	return (size_t)snprintf(resolved + used, PATH_MAX - used, "/%s", name) <
	       PATH_MAX - used;
}

bool output_file_same(const char *path, const char *other)
{
	char one[PATH_MAX], two[PATH_MAX];

	return !is_special(path) && resolve(path, one) && resolve(other, two) &&
	       !strcmp(one, two);
}

bool output_file_probe(const char *who, const char *path)
{
	char place[PATH_MAX], beside[PATH_MAX];
	int fd;

	if (is_special(path)) {
		if (!access(path, W_OK))
			return true;
		return complain(who, path, "cannot be written");
	}
	fd = open_beside(who, path, place, beside);
	if (fd < 0)
		return false;
	close(fd);
	unlink(beside);
	return true;
}

static bool write_all(int fd, const char *text)
{
	size_t left = strlen(text);

	while (left) {
		ssize_t done = write(fd, text, left);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return false;
		text += done;
		left -= (size_t)done;
	}
	return true;
}

static bool write_special(const char *who, const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool fine = fd >= 0 && write_all(fd, text);

	if (!fine)
		complain(who, path, "writing failed");
	if (fd >= 0)
		close(fd);
	return fine;
}

/* As if it had been made by open: what the umask leaves of 0666, or what the
 * file that is replaced has. */
static mode_t mode_for(const char *place)
{
	struct stat status;
	mode_t mask;

	if (!stat(place, &status))
		return status.st_mode & 0777;
	mask = umask(0);
	umask(mask);
	return 0666 & ~mask;
}

bool output_file_write(const char *who, const char *path, const char *text)
{
	char place[PATH_MAX], beside[PATH_MAX];
	bool fine;
	int fd;

	if (is_special(path))
		return write_special(who, path, text);
	fd = open_beside(who, path, place, beside);
	if (fd < 0)
		return false;
	fine = write_all(fd, text) && !fchmod(fd, mode_for(place)) &&
	       !fsync(fd);
	fine = !close(fd) && fine;
	if (fine && !rename(beside, place))
		return true;
	complain(who, path, "writing failed");
	unlink(beside);
	return false;
}
