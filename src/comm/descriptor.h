/* SPDX-License-Identifier: MIT */
/*
 * Shared memory by descriptor: memfds that cannot shrink or grow once they are
 * made, so that a peer cannot take mapped pages away (SIGBUS).
 */
#ifndef OH_COMM_DESCRIPTOR_H
#define OH_COMM_DESCRIPTOR_H

#include <stddef.h>

#include "onehop/onehop.h"

/* Moves a new descriptor off 0 to 2, where the program or its log may write;
 * passes an error on. */
int oh__fd_raise(int fd);

/* A memfd of that many bytes, its size sealed, close-on-exec. */
enum oh_status oh__memfd_create(const char *name, size_t bytes, int *fd);

/* Maps it whole, for reading or for both. */
enum oh_status oh__memfd_map(int fd, size_t bytes, int writable,
			     void **address);

/*
 * Is this descriptor, sent by a peer, a memfd of exactly that many bytes whose
 * size is sealed? OH_ERR_PROTOCOL if not.
 */
enum oh_status oh__memfd_check(int fd, size_t bytes, int rank);

void oh__memfd_unmap(void *address, size_t bytes);

/* Closes *fd if it is open and sets it to -1. */
void oh__fd_close(int *fd);

#endif
