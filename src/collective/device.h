/* SPDX-License-Identifier: MIT */
/*
 * A communicator's calls on GPU memory: which kind of memory a call is on, and
 * whether this communicator can do it.
 */
#ifndef OH_COLLECTIVE_DEVICE_H
#define OH_COLLECTIVE_DEVICE_H

#include "collective/communicator.h"

/* Sets up comm->gpu, all ranks together; the table of host calls is there.
 * device: as in struct oh_comm_options. */
enum oh_status oh__device_connect(struct oh_comm *comm,
				  const struct oh__gpu_options *options,
				  struct oh__rendezvous *rendezvous);

/* Is the call on GPU memory? Clear errors for a mixture, for another GPU's
 * memory, and for what cannot be done there. */
enum oh_status oh__device_recognise(const struct oh_comm *comm,
				    const struct oh__call *call,
				    bool *on_device);

/* Are there kernels for it, for two ranks and more? */
bool oh__device_has(enum oh_collective collective, enum oh_dtype dtype,
		    enum oh_op op);

/* The way of such a call: all of route but size and memory. */
void oh__device_explain(const struct oh_comm *comm, const struct oh__call *call,
			struct oh_route *route);

/* Runs a call that was recognised. */
enum oh_status oh__device_run(struct oh_comm *comm,
			      const struct oh__call *call);

#endif
