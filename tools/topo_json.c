/* SPDX-License-Identifier: MIT */
/*
 * A machine in JSON, for `onehop topo` and `onehop doctor`. Keys are only ever
 * added. What is not known is null, never 0, and "origins" says where each
 * datum that is known comes from.
 */
#include <stddef.h>

#include "tools/machine_json.h"
#include "tools/text_json.h"
#include "tools/topo_write.h"

const char *topo_peers_name(enum oh__peer_summary summary)
{
	static const char *const names[] = {"unknown", "none", "some", "all"};

	return names[summary];
}

const char *topo_iommu_name(enum oh__iommu mode)
{
	static const char *const names[] = {"unknown", "off", "passthrough",
					    "translated"};

	return names[mode];
}

const char *topo_aspect_name(enum oh__peer_aspect aspect)
{
	static const char *const names[] = {"read", "write", "nvlink",
					    "atomics"};

	return names[aspect];
}

/* The data of a GPU and of the host that are plain texts and numbers. */
struct datum {
	const char *key;
	size_t offset;
};

static const struct datum gpu_texts[] = {
	{"name", offsetof(struct oh__gpu, name)},
	{"uuid", offsetof(struct oh__gpu, uuid)},
	{"pci", offsetof(struct oh__gpu, pci)},
	{"cpu_affinity", offsetof(struct oh__gpu, cpu_affinity)},
};

static const struct datum gpu_numbers[] = {
	{"memory_bytes", offsetof(struct oh__gpu, memory_bytes)},
	{"numa_node", offsetof(struct oh__gpu, numa_node)},
};

static const struct datum pcie_numbers[] = {
	{"generation", offsetof(struct oh__gpu, pcie_gen)},
	{"generation_max", offsetof(struct oh__gpu, pcie_gen_max)},
	{"width", offsetof(struct oh__gpu, pcie_width)},
	{"width_max", offsetof(struct oh__gpu, pcie_width_max)},
};

static const struct datum host_texts[] = {
	{"driver", offsetof(struct oh__host, driver)},
	{"cuda", offsetof(struct oh__host, cuda)},
	{"cpu", offsetof(struct oh__host, cpu)},
	{"kernel", offsetof(struct oh__host, kernel)},
	{"command_line", offsetof(struct oh__host, command_line)},
	{"vllm", offsetof(struct oh__host, vllm)},
	{"sglang", offsetof(struct oh__host, sglang)},
	{"nccl", offsetof(struct oh__host, nccl)},
	{"torch", offsetof(struct oh__host, torch)},
};

#define COUNT(table) (sizeof(table) / sizeof(*(table)))

/* The machine and the object that gathers origins. */
struct writer {
	const struct oh__machine *machine;
	json_t *origins;
};

static void note_origin(const struct writer *writer, struct oh__from from,
			const char *prefix, const char *key)
{
	char name[96], origin[OH__TEXT_BYTES + 16];

	if (!oh__known(from))
		return;
	snprintf(name, sizeof(name), "%s%s%s", prefix, *prefix ? "." : "", key);
	oh__machine_origin(writer->machine, from, origin, sizeof(origin));
	json_object_set_new(writer->origins, name, text_json(origin));
}

static void add_texts(const struct writer *writer, json_t *object,
		      const char *prefix, const void *data,
		      const struct datum *table, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const void *at = (const char *)data + table[i].offset;
		const struct oh__text *text = at;

		json_object_set_new(object, table[i].key,
				    oh__known(text->from)
					    ? text_json(text->text)
					    : json_null());
		note_origin(writer, text->from, prefix, table[i].key);
	}
}

static json_t *number_or_null(const struct oh__number *number)
{
	return oh__known(number->from) ? json_integer((json_int_t)number->value)
				       : json_null();
}

static void add_numbers(const struct writer *writer, json_t *object,
			const char *prefix, const void *data,
			const struct datum *table, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const void *at = (const char *)data + table[i].offset;
		const struct oh__number *number = at;

		json_object_set_new(object, table[i].key,
				    number_or_null(number));
		note_origin(writer, number->from, prefix, table[i].key);
	}
}

/* "12.0" */
static json_t *capability_json(const struct oh__number *capability)
{
	if (!oh__known(capability->from))
		return json_null();
	return json_sprintf("%d.%d", (int)(capability->value / 10),
			    (int)(capability->value % 10));
}

static json_t *gpu_json(const struct writer *writer, int index)
{
	const struct oh__gpu *gpu = &writer->machine->gpu[index];
	json_t *object = json_object(), *pcie = json_object();
	char prefix[32];

	snprintf(prefix, sizeof(prefix), "gpus[%d]", index);
	json_object_set_new(object, "index", json_integer(index));
	add_texts(writer, object, prefix, gpu, gpu_texts, COUNT(gpu_texts));
	json_object_set_new(object, "compute_capability",
			    capability_json(&gpu->capability));
	note_origin(writer, gpu->capability.from, prefix, "compute_capability");
	add_numbers(writer, object, prefix, gpu, gpu_numbers,
		    COUNT(gpu_numbers));
	json_object_set_new(object, "mig",
			    oh__known(gpu->mig.from)
				    ? json_boolean(gpu->mig.value != 0)
				    : json_null());
	note_origin(writer, gpu->mig.from, prefix, "mig");
	snprintf(prefix, sizeof(prefix), "gpus[%d].pcie", index);
	add_numbers(writer, pcie, prefix, gpu, pcie_numbers,
		    COUNT(pcie_numbers));
	json_object_set_new(object, "pcie", pcie);
	return object;
}

static json_t *gpus_json(const struct writer *writer)
{
	json_t *list = json_array();

	for (int i = 0; i < writer->machine->gpus; i++)
		json_array_append_new(list, gpu_json(writer, i));
	return list;
}

static json_t *link_json(const struct oh__link *link)
{
	char text[8];

	return oh__known(link->from) ? json_string(oh__link_text(link, text))
				     : json_null();
}

/* null where nothing is known of any pair. */
static json_t *links_json(const struct writer *writer)
{
	const struct oh__machine *machine = writer->machine;
	json_t *rows = json_array();
	bool known = false;

	for (int i = 0; i < machine->gpus; i++) {
		json_t *row = json_array();

		for (int j = 0; j < machine->gpus; j++) {
			const struct oh__link *link = &machine->link[i][j];

			json_array_append_new(row, link_json(link));
			known |= oh__known(link->from);
		}
		json_array_append_new(rows, row);
	}
	note_origin(writer, machine->link[0][0].from, "", "links");
	if (known)
		return rows;
	json_decref(rows);
	return json_null();
}

static json_t *peer_json(const struct oh__peer *peer, bool self)
{
	if (self)
		return json_string("X");
	return oh__known(peer->from)
		       ? json_string(oh__peer_status_text(peer->status))
		       : json_null();
}

static json_t *aspect_json(const struct writer *writer,
			   enum oh__peer_aspect aspect)
{
	const struct oh__machine *machine = writer->machine;
	json_t *rows = json_array();
	struct oh__from first = {0};

	for (int i = 0; i < machine->gpus; i++) {
		json_t *row = json_array();

		for (int j = 0; j < machine->gpus; j++) {
			const struct oh__peer *peer =
				&machine->peer[aspect][i][j];

			json_array_append_new(row, peer_json(peer, i == j));
			if (!oh__known(first))
				first = peer->from;
		}
		json_array_append_new(rows, row);
	}
	note_origin(writer, first, "peer", topo_aspect_name(aspect));
	if (oh__known(first))
		return rows;
	json_decref(rows);
	return json_null();
}

static json_t *peers_json(const struct writer *writer)
{
	json_t *object = json_object();

	for (int i = 0; i < OH__PEER_ASPECTS; i++) {
		enum oh__peer_aspect aspect = (enum oh__peer_aspect)i;

		json_object_set_new(object, topo_aspect_name(aspect),
				    aspect_json(writer, aspect));
	}
	return object;
}

static json_t *groups_json(const struct oh__groups *groups)
{
	json_t *list = json_array();

	for (int i = 0; i < groups->count; i++) {
		json_t *group = json_array();

		for (int j = 0; j < groups->size[i]; j++)
			json_array_append_new(
				group, json_integer(groups->member[i][j]));
		json_array_append_new(list, group);
	}
	return list;
}

static json_t *host_json(const struct writer *writer)
{
	const struct oh__host *host = &writer->machine->host;
	json_t *object = json_object();

	add_texts(writer, object, "host", host, host_texts, COUNT(host_texts));
	json_object_set_new(
		object, "iommu",
		oh__known(host->iommu.from)
			? json_string(topo_iommu_name(host->iommu.mode))
			: json_null());
	note_origin(writer, host->iommu.from, "host", "iommu");
	json_object_set_new(object, "acs_redirect",
			    number_or_null(&host->acs_redirect));
	note_origin(writer, host->acs_redirect.from, "host", "acs_redirect");
	return object;
}

static json_t *variables_json(const struct writer *writer)
{
	json_t *object = json_object();

	for (int i = 0; i < writer->machine->variable_count; i++) {
		const struct oh__variable *variable =
			&writer->machine->variables[i];

		json_object_set_new(object, variable->name,
				    text_json(variable->value));
		note_origin(writer, variable->from, "variables",
			    variable->name);
	}
	return object;
}

static json_t *remarks_json(const struct writer *writer)
{
	json_t *list = json_array();

	for (int i = 0; i < writer->machine->remark_count; i++) {
		const struct oh__remark *remark = &writer->machine->remarks[i];
		char origin[OH__TEXT_BYTES + 16];

		oh__machine_origin(writer->machine, remark->from, origin,
				   sizeof(origin));
		json_array_append_new(list,
				      json_pack("{s:o, s:o}", "text",
						text_json(remark->text),
						"origin", text_json(origin)));
	}
	return list;
}

json_t *machine_json(const struct oh__machine *machine)
{
	struct writer writer = {machine, json_object()};
	struct oh__groups islands, switches;
	json_t *object;

	oh__machine_islands(machine, &islands);
	oh__machine_switch_groups(machine, &switches);
	object = json_pack(
		"{s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "gpus",
		gpus_json(&writer), "links", links_json(&writer), "peer",
		peers_json(&writer), "driver_says_peer",
		topo_peers_name(oh__machine_peers(machine)), "islands",
		groups_json(&islands), "host", host_json(&writer), "variables",
		variables_json(&writer), "remarks", remarks_json(&writer));
	if (object && switches.count)
		json_object_set_new(object, "switch_groups",
				    groups_json(&switches));
	if (object)
		json_object_set(object, "origins", writer.origins);
	json_decref(writer.origins);
	return object;
}

bool topo_write_json(const struct oh__machine *machine, FILE *out)
{
	json_t *root = json_pack("{s:i, s:o}", "schema_version", 1, "machine",
				 machine_json(machine));
	bool written = root && !json_dumpf(root, out, JSON_INDENT(2));

	json_decref(root);
	return written && fputc('\n', out) != EOF;
}
