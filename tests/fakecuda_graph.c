/* SPDX-License-Identifier: MIT */
/*
 * Captures and graphs of the CUDA driver's fake. A capture is a graph that its
 * streams point to, each with the nodes that its next one waits for. A replay
 * does the nodes' work in the order in which they were captured.
 */
#include "fakecuda_private.h"

struct CUgraphExec_st {
	struct object object;
	CUgraphNode first;
	bool uploaded;
};

static cuuint64_t captures;

/* Nodes. */

static void nodes_end(CUgraphNode node)
{
	while (node) {
		CUgraphNode next = node->next;

		free(node->work.launch);
		free(node);
		node = next;
	}
}

static void graph_end(CUgraph graph)
{
	nodes_end(graph->first);
	fake_object_end(graph);
}

static bool wait_for(struct waits *waits, CUgraphNode node)
{
	for (size_t i = 0; i < waits->count; i++)
		if (waits->node[i] == node)
			return true;
	if (waits->count == WAITS)
		return false;
	waits->node[waits->count++] = node;
	return true;
}

CUresult fake_wait_for_all(struct waits *waits, const struct waits *more)
{
	for (size_t i = 0; i < more->count; i++)
		if (!wait_for(waits, more->node[i]))
			return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

CUresult fake_graph_add(CUgraph graph, struct waits *waits,
			const struct fake_work *work)
{
	CUgraphNode node = calloc(1, sizeof(*node));

	if (!node) {
		free(work->launch);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	node->work = *work;
	node->waits = *waits;
	*graph->end = node;
	graph->end = &node->next;
	*waits = (struct waits){.node = {node}, .count = 1};
	return CUDA_SUCCESS;
}

/* Marks what was looked at: streams that wait for each other give a graph as
 * many ways as there are subsets of its nodes. */
static bool is_after(CUgraphNode later, CUgraphNode earlier, unsigned mark)
{
	if (later->mark == mark)
		return false;
	later->mark = mark;
	for (size_t i = 0; i < later->waits.count; i++)
		if (later->waits.node[i] == earlier ||
		    is_after(later->waits.node[i], earlier, mark))
			return true;
	return false;
}

bool fakecuda_is_after(CUgraphNode later, CUgraphNode earlier)
{
	static unsigned mark;

	return is_after(later, earlier, ++mark);
}

/* Captures. */

static CUstreamCaptureStatus status_of(CUstream stream)
{
	if (!stream->capture)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return stream->capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
				       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	ENTER(INIT);
	CUstreamCaptureMode *own = fake_thread_mode(), before = *own;

	if (*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	*own = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
	ENTER(CURRENT);
	CUstream stream = fake_stream_asked(handle, &failure);

	if (stream)
		*status = status_of(stream);
	return failure;
}

static CUresult give_capture(CUstream handle, CUstreamCaptureStatus *status,
			     cuuint64_t *id, CUgraph *graph,
			     const CUgraphNode **dependencies, size_t *count)
{
	CUresult failure;
	CUstream stream = fake_stream_of(handle, &failure);

	if (!stream)
		return failure;
	*status = status_of(stream);
	if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_SUCCESS;
	if (id)
		*id = stream->capture->id;
	if (graph)
		*graph = stream->capture;
	if (dependencies)
		*dependencies = stream->waits.node;
	if (count)
		*count = stream->waits.count;
	return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream,
				   CUstreamCaptureStatus *status,
				   cuuint64_t *id, CUgraph *graph,
				   const CUgraphNode **dependencies,
				   size_t *count)
{
	ENTER(CURRENT);
	return give_capture(stream, status, id, graph, dependencies, count);
}

/* No edge carries data here. */
CUresult cuStreamGetCaptureInfo_v3(CUstream stream,
				   CUstreamCaptureStatus *status,
				   cuuint64_t *id, CUgraph *graph,
				   const CUgraphNode **dependencies,
				   const CUgraphEdgeData **edges, size_t *count)
{
	static const CUgraphEdgeData none[WAITS];
	ENTER(CURRENT);

	if (edges)
		*edges = none;
	return give_capture(stream, status, id, graph, dependencies, count);
}

static bool has_node(CUgraph graph, CUgraphNode wanted)
{
	CUgraphNode node = graph->first;

	while (node && node != wanted)
		node = node->next;
	return node;
}

static CUresult update_waits(CUstream handle, const CUgraphNode *nodes,
			     size_t count, unsigned flags)
{
	struct waits waits = {.count = 0};
	CUresult failure;
	CUstream stream = fake_stream_of(handle, &failure);

	if (!stream)
		return failure;
	if (status_of(stream) != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES)
		waits = stream->waits;
	for (size_t i = 0; i < count; i++)
		if (!has_node(stream->capture, nodes[i]) ||
		    !wait_for(&waits, nodes[i]))
			return CUDA_ERROR_INVALID_VALUE;
	stream->waits = waits;
	return CUDA_SUCCESS;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream,
					   CUgraphNode *dependencies,
					   size_t count, unsigned int flags)
{
	ENTER(CURRENT);
	return update_waits(stream, dependencies, count, flags);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream,
					      CUgraphNode *dependencies,
					      const CUgraphEdgeData *edges,
					      size_t count, unsigned int flags)
{
	ENTER(CURRENT);
	return edges ? CUDA_ERROR_NOT_SUPPORTED
		     : update_waits(stream, dependencies, count, flags);
}

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode)
{
	ENTER(CURRENT);
	CUstream stream;
	CUgraph graph;

	if (!handle || handle == CU_STREAM_LEGACY)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!fake_object_is(handle, STREAM))
		return CUDA_ERROR_INVALID_HANDLE;
	stream = handle;
	if (stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	graph = fake_object_new(GRAPH, sizeof(*graph));
	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	graph->end = &graph->first;
	graph->id = ++captures;
	graph->origin = stream;
	graph->capturing = true;
	stream->capture = graph;
	stream->mode = mode;
	stream->thread = pthread_self();
	stream->waits.count = 0;
	return CUDA_SUCCESS;
}

/* Whether the origin waits for all that another stream did. */
static bool is_joined(CUstream origin, CUstream other)
{
	for (size_t i = 0; i < other->waits.count; i++) {
		CUgraphNode node = other->waits.node[i];
		bool after = false;

		for (size_t k = 0; k < origin->waits.count; k++)
			after = after || origin->waits.node[k] == node ||
				fakecuda_is_after(origin->waits.node[k], node);
		if (!after)
			return false;
	}
	return true;
}

/* Ends the capture in all its streams; false if one was not joined. */
static bool leave_capture(CUgraph graph)
{
	bool joined = true;

	for (struct object *at = fake_objects(); at; at = at->next) {
		CUstream stream = (CUstream)at;

		if (at->kind != STREAM || stream->capture != graph)
			continue;
		joined = joined && is_joined(graph->origin, stream);
		stream->capture = NULL;
	}
	graph->capturing = false;
	return joined;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	ENTER(CURRENT);
	CUgraph it;
	bool joined;

	*graph = NULL;
	if (!fake_object_is(stream, STREAM))
		return CUDA_ERROR_INVALID_HANDLE;
	it = stream->capture;
	if (!it)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (it->origin != stream)
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	if (stream->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
	    !pthread_equal(stream->thread, pthread_self()))
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	joined = leave_capture(it);
	if (joined && !it->broken) {
		*graph = it;
		return CUDA_SUCCESS;
	}
	failure = it->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
			     : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	graph_end(it);
	return failure;
}

/* Replays. */

static CUgraphNode copy_node(const struct fake_work *work)
{
	CUgraphNode node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->work = *work;
	if (!work->launch)
		return node;
	node->work.launch = malloc(sizeof(*work->launch));
	if (!node->work.launch) {
		free(node);
		return NULL;
	}
	*node->work.launch = *work->launch;
	return node;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
				     unsigned long long flags)
{
	ENTER(INIT);
	CUgraphExec it;
	CUgraphNode *end;

	if (!fake_object_is(graph, GRAPH) || graph->capturing)
		return CUDA_ERROR_INVALID_HANDLE;
	it = fake_object_new(EXECUTABLE, sizeof(*it));
	if (!it)
		return CUDA_ERROR_OUT_OF_MEMORY;
	end = &it->first;
	for (CUgraphNode node = graph->first; node; node = node->next) {
		*end = copy_node(&node->work);
		if (!*end) {
			nodes_end(it->first);
			fake_object_end(it);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		end = &(*end)->next;
	}
	*executable = it;
	return CUDA_SUCCESS;
}

/* Where it may go; a graph in a graph is not played. */
static CUresult check_graph(CUgraphExec executable, CUstream handle,
			    CUstream *stream)
{
	CUresult failure;

	*stream = fake_stream_of(handle, &failure);
	if (!*stream)
		return failure;
	if (!fake_object_is(executable, EXECUTABLE))
		return CUDA_ERROR_INVALID_HANDLE;
	return (*stream)->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
				  : CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec executable, CUstream handle)
{
	ENTER(CURRENT);
	CUstream stream;

	failure = check_graph(executable, handle, &stream);
	if (!failure)
		executable->uploaded = true;
	return failure;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream handle)
{
	ENTER(CURRENT);
	CUstream stream;

	failure = check_graph(executable, handle, &stream);
	if (failure)
		return failure;
	if (fake_lazy_graphs && !executable->uploaded)
		fake_wait_for_kernels(fake_stream_context(stream));
	executable->uploaded = true;
	for (CUgraphNode node = executable->first; node; node = node->next)
		fake_work_do(&node->work, stream, true);
	return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec executable)
{
	ENTER(INIT);
	if (!fake_object_is(executable, EXECUTABLE))
		return CUDA_ERROR_INVALID_HANDLE;
	nodes_end(executable->first);
	fake_object_end(executable);
	return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
	ENTER(INIT);
	if (!fake_object_is(graph, GRAPH) || graph->capturing)
		return CUDA_ERROR_INVALID_HANDLE;
	graph_end(graph);
	return CUDA_SUCCESS;
}
