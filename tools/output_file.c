/* SPDX-License-Identifier: MIT */
/*
 * A file is written under a name of its own in the same folder, brought to
 * the disk, and renamed: at every moment its place holds the old one or the
 * new one, whole. What cannot be replaced is written in place: devices, pipes,
 * and a file that is a mount point, as containers have them.
 */
#include "tools/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_LINKS 40 /* as in the kernel */

static bool complain(const char *who, const char *path, const char *what)
{
	fprintf(stderr, "%s: %s: %s: %s\n", who, path, what, strerror(errno));
	return false;
}

bool output_file_is_special(const char *path)
{
	struct stat status;

	return !stat(path, &status) && !S_ISREG(status.st_mode);
}

static bool is_mount_point(const char *path)
{
	struct statx status = {0};

	return !statx(AT_FDCWD, path, 0, 0, &status) &&
	       status.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

static bool stays_in_place(const char *path)
{
	return output_file_is_special(path) || is_mount_point(path);
}

/* folder and name become one path. */
static bool join(const char *folder, const char *name, char *path)
{
	if (snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX)
		return true;
	errno = ENAMETOOLONG;
	return false;
}

/* The place of a name in a folder that is there. */
static bool place_of(const char *path, char *place)
{
	const char *slash = strrchr(path, '/'),
		   *name = slash ? slash + 1 : path;
	char folder[PATH_MAX], real[PATH_MAX];

	errno = ENOENT;
	if (!*name)
		return false;
	snprintf(folder, sizeof(folder), "%.*s.", (int)(name - path), path);
	return realpath(folder, real) && join(real, name, place);
}

/* The name that a path has without links. Of a file that is not there only its
 * folder need be, also where a link leads to it. */
static bool resolve(const char *path, char *resolved)
{
	char at[PATH_MAX], target[PATH_MAX];

	if (snprintf(at, sizeof(at), "%s", path) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return false;
	}
	for (int links = 0; links < MOST_LINKS; links++) {
		ssize_t length;

		if (realpath(at, resolved))
			return true;
		if (errno != ENOENT || !place_of(at, resolved))
			return false;
		length = readlink(resolved, target, sizeof(target) - 1);
		if (length < 0)
			return true;
		target[length] = '\0';
		if (*target == '/')
			strcpy(at, target);
		else if (!join(dirname(resolved), target, at))
			return false;
	}
	errno = ELOOP;
	return false;
}

/* As open for writing would have it, but a file that is not there is fine. */
static bool may_be_written(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || errno == ENOENT;
}

/* A name beside the place where the file really is. */
static int open_beside(const char *who, const char *path, char *place,
		       char *beside)
{
	int fd = -1;

	if (may_be_written(path) && resolve(path, place)) {
		if (snprintf(beside, PATH_MAX, "%s.XXXXXX", place) < PATH_MAX)
			fd = mkostemp(beside, O_CLOEXEC);
		else
			errno = ENAMETOOLONG;
	}
	if (fd < 0)
		complain(who, path, "cannot be written");
	return fd;
}

bool output_file_same(const char *path, const char *other)
{
	char one[PATH_MAX], two[PATH_MAX];

	return !output_file_is_special(path) && resolve(path, one) &&
	       resolve(other, two) && !strcmp(one, two);
}

/* A pipe is not opened: its reader would see an end. */
static bool place_may_be_written(const char *path)
{
	struct stat status;

	if (access(path, W_OK) || stat(path, &status))
		return false;
	errno = S_ISDIR(status.st_mode) ? EISDIR : ENXIO;
	return !S_ISDIR(status.st_mode) && !S_ISSOCK(status.st_mode);
}

bool output_file_probe(const char *who, const char *path)
{
	char place[PATH_MAX], beside[PATH_MAX];
	int fd;

	if (stays_in_place(path))
		return place_may_be_written(path) ||
		       complain(who, path, "cannot be written");
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

static bool write_in_place(const char *who, const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_TRUNC);
	bool fine = fd >= 0 && write_all(fd, text);

	if (!fine)
		complain(who, path, "writing failed");
	if (fd >= 0)
		close(fd);
	return fine;
}

/* As if it had been made by open: what the umask leaves of 0666, or what the
 * file that is replaced has. Its owner and group stay where this process may
 * give files away. */
static bool take_over(int fd, const char *place)
{
	struct stat status;
	mode_t mask;

	if (!stat(place, &status)) {
		if (fchown(fd, status.st_uid, status.st_gid))
			(void)!fchown(fd, (uid_t)-1, status.st_gid);
		return !fchmod(fd, status.st_mode & 0777);
	}
	mask = umask(0);
	umask(mask);
	return !fchmod(fd, 0666 & ~mask);
}

bool output_file_write(const char *who, const char *path, const char *text)
{
	char place[PATH_MAX], beside[PATH_MAX];
	bool fine;
	int fd;

	if (stays_in_place(path))
		return write_in_place(who, path, text);
	fd = open_beside(who, path, place, beside);
	if (fd < 0)
		return false;
	fine = write_all(fd, text) && take_over(fd, place) && !fsync(fd);
	fine = !close(fd) && fine;
	if (fine && !rename(beside, place))
		return true;
	complain(who, path, "writing failed");
	unlink(beside);
	return false;
}
