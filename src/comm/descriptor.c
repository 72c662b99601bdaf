/* SPDX-License-Identifier: MIT */
#include "comm/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define WRITE_SEALS (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)

int oh__fd_raise(int fd)
{
	int raised, saved;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	raised = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	saved = errno;
	close(fd);
	errno = saved;
	return raised;
}

/* Beyond RLIMIT_FSIZE ftruncate raises SIGXFSZ, which ends the process. */
static enum oh_status set_size(int fd, const char *name, size_t bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
	    limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur)
		return OH__FAIL(OH_ERR_NO_MEMORY,
				"%zu bytes for %s, the limit of a file's size "
				"is %llu (ulimit -f)",
				bytes, name,
				(unsigned long long)limit.rlim_cur);
	if (ftruncate(fd, (off_t)bytes) < 0)
		return OH__FAIL_CALL(OH_ERR_NO_MEMORY, "ftruncate", errno,
				     "%zu bytes for %s", bytes, name);
	return OH_OK;
}

enum oh_status oh__memfd_create(const char *name, size_t bytes, int *fd)
{
	enum oh_status status;
	int made = oh__fd_raise(
		memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));

	if (made < 0)
		return OH__FAIL_CALL(OH_ERR_SYSTEM, "memfd_create", errno,
				     "no shared memory for %s", name);
	status = set_size(made, name, bytes);
	if (status)
		goto err_close;
	if (fcntl(made, F_ADD_SEALS, SIZE_SEALS | F_SEAL_SEAL) < 0) {
		status = OH__FAIL_CALL(OH_ERR_SYSTEM, "fcntl(F_ADD_SEALS)",
				       errno, "cannot seal %s", name);
		goto err_close;
	}
	*fd = made;
	return OH_OK;

err_close:
	close(made);
	return status;
}

enum oh_status oh__memfd_map(int fd, size_t bytes, int writable, void **address)
{
	int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
	/* without access first: mlockall(MCL_FUTURE) would touch every page */
	void *at = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return OH__FAIL_CALL(OH_ERR_NO_MEMORY, "mmap", errno,
				     "cannot map %zu bytes of shared memory "
				     "(see ulimit -v, ONEHOP_HEAP_BYTES and "
				     "ONEHOP_SLOT_BYTES)",
				     bytes);
	munlock(at, bytes);
	/* a core dump touches the pages of shared memory that it writes */
	madvise(at, bytes, MADV_DONTDUMP);
	if (mprotect(at, bytes, protection) < 0) {
		enum oh_status status = OH__FAIL_CALL(
			OH_ERR_NO_MEMORY, "mprotect", errno,
			"cannot map %zu bytes of shared memory", bytes);

		munmap(at, bytes);
		return status;
	}
	*address = at;
	return OH_OK;
}

enum oh_status oh__memfd_check(int fd, size_t bytes, int rank)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat info;

	if (seals < 0 || fstat(fd, &info) < 0)
		return OH__FAIL_CALL(OH_ERR_PROTOCOL, "fcntl(F_GET_SEALS)",
				     errno,
				     "rank %d sent a descriptor that is not "
				     "shared memory",
				     rank);
	if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR || seals & WRITE_SEALS)
		return OH__FAIL(OH_ERR_PROTOCOL,
				"rank %d sent shared memory that cannot be "
				"written (seals %x)",
				rank, (unsigned)seals);
	if ((seals & SIZE_SEALS) != SIZE_SEALS || info.st_size < 0 ||
	    (size_t)info.st_size != bytes)
		return OH__FAIL(OH_ERR_PROTOCOL,
				"rank %d sent shared memory of %lld bytes with "
				"seals %x, expected %zu bytes and a sealed "
				"size",
				rank, (long long)info.st_size, (unsigned)seals,
				bytes);
	return OH_OK;
}

void oh__memfd_unmap(void *address, size_t bytes)
{
	if (address)
		munmap(address, bytes);
}

void oh__fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}
