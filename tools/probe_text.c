/* SPDX-License-Identifier: MIT */
/*
 * The figures as tables of at most 100 columns, then the findings. What is not
 * known is a dash. All figures are medians.
 */
#include "tools/page.h"
#include "tools/probe_write.h"

#define WIDTH 100

static void put_us(FILE *out, int width, const struct probe_figure *figure)
{
	if (figure->known)
		fprintf(out, "%*.2f", width, figure->median);
	else
		fprintf(out, "%*s", width, "-");
}

static void put_rate(FILE *out, int width, const struct probe_figure *figure)
{
	if (figure->known)
		fprintf(out, "%*.*f", width, figure->median < 100 ? 1 : 0,
			figure->median);
	else
		fprintf(out, "%*s", width, "-");
}

/* Of the data sheet's figure, in percent. */
static void put_part(FILE *out, int width, const struct probe_figure *figure,
		     double times, double peak)
{
	if (figure->known && peak > 0)
		fprintf(out, "%*.0f%%", width - 1,
			100 * times * figure->median / peak);
	else
		fprintf(out, "%*s", width, "-");
}

static void write_gpus(const struct probe *probe, const struct page *page)
{
	page_head(page, "GPUs");
	fprintf(page->out, "%-5s%-14s%-36s%6s%6s%6s  %s\n", "GPU", "address",
		"name", "sm", "units", "node", "state");
	for (int i = 0; i < probe->gpus; i++) {
		const struct probe_gpu *gpu = &probe->gpu[i];
		char sm[16], units[16], node[16];

		snprintf(sm, sizeof(sm), "%d.%d", gpu->capability / 10,
			 gpu->capability % 10);
		snprintf(units, sizeof(units), "%d", gpu->multiprocessors);
		snprintf(node, sizeof(node), "%d", gpu->node);
		fprintf(page->out, "%-5d%-14s%-36.35s%6s%6s%6s  %s\n",
			gpu->ordinal, gpu->address, gpu->name, sm, units,
			gpu->node < 0 ? "-" : node, probe_state(&gpu->problem));
	}
}

static void write_memory(const struct probe *probe, const struct page *page)
{
	FILE *out = page->out;

	page_head(page, "Memory of each GPU, and host memory near it: us of a "
			"word, GB/s");
	fprintf(out, "%5s%45s%48s\n", "", "own", "host");
	fprintf(out, "%-5s%8s%7s%8s%7s%7s%8s%8s%8s%7s%7s%8s%10s\n", "GPU",
		"load us", "load", "of peak", "store", "copy", "of peak",
		"flag us", "load us", "store", "load", "copy to", "copy back");
	for (int i = 0; i < probe->gpus; i++) {
		const struct probe_gpu *gpu = &probe->gpu[i];
		double peak = probe_peak(gpu);

		fprintf(out, "%-5d", gpu->ordinal);
		put_us(out, 8, &gpu->latency);
		put_rate(out, 7, &gpu->own[PROBE_LOAD]);
		put_part(out, 8, &gpu->own[PROBE_LOAD], 1, peak);
		put_rate(out, 7, &gpu->own[PROBE_STORE]);
		put_rate(out, 7, &gpu->own[PROBE_COPY]);
		put_part(out, 8, &gpu->own[PROBE_COPY], 2, peak);
		put_us(out, 8, &gpu->host_flag);
		put_us(out, 8, &gpu->host_load);
		put_rate(out, 7, &gpu->host[PROBE_STORE]);
		put_rate(out, 7, &gpu->host[PROBE_LOAD]);
		put_rate(out, 8, &gpu->host[PROBE_COPY]);
		put_rate(out, 10, &gpu->host_copy_back);
		fputc('\n', out);
	}
}

static void write_checks(const struct probe *probe, const struct page *page)
{
	static const char *const words[] = {"-", "no", "yes"};

	page_head(page, "Pairs: the driver's word, and the check");
	fprintf(page->out, "%-8s%8s%9s%6s  %-9s%s\n", "pair", "access",
		"atomics", "rank", "check", "words wrong: store, load");
	for (int i = 0; i < probe->gpus; i++)
		for (int j = 0; j < probe->gpus; j++) {
			const struct probe_pair *pair = &probe->pair[i][j];
			const struct probe_count *count = pair->count;
			char name[32], rank[16] = "-";

			if (i == j)
				continue;
			snprintf(name, sizeof(name), "%d->%d",
				 probe->gpu[i].ordinal, probe->gpu[j].ordinal);
			if (pair->rank >= 0)
				snprintf(rank, sizeof(rank), "%d", pair->rank);
			fprintf(page->out, "%-8s%8s%9s%6s  %-9s", name,
				words[pair->says + 1], words[pair->atomics + 1],
				rank, probe_state(&pair->problem));
			fprintf(page->out, "%llu of %llu, %llu of %llu\n",
				(unsigned long long)count[PROBE_STORE].wrong,
				(unsigned long long)count[PROBE_STORE].words,
				(unsigned long long)count[PROBE_LOAD].wrong,
				(unsigned long long)count[PROBE_LOAD].words);
		}
}

static void write_pair(const struct probe *probe, FILE *out, int from, int to)
{
	const struct probe_pair *pair = &probe->pair[from][to];
	char name[16];

	snprintf(name, sizeof(name), "%d->%d", probe->gpu[from].ordinal,
		 probe->gpu[to].ordinal);
	fprintf(out, "%-7s%-8s", name, probe_state(&pair->problem));
	for (int phase = 0; phase < PROBE_PHASES; phase++) {
		for (int way = 0; way < PROBE_WAYS; way++)
			put_us(out, 6, &pair->latency[phase][way]);
		if (phase == PROBE_ALONE)
			put_us(out, 6, &pair->host_latency);
	}
	for (int phase = 0; phase < PROBE_PHASES; phase++)
		for (int way = 0; way < PROBE_WAYS; way++)
			put_rate(out, 7, &pair->rate[phase][way]);
	fputc('\n', out);
}

static void write_pairs(const struct probe *probe, const struct page *page)
{
	FILE *out = page->out;

	page_head(page, "Pairs: us of a word, GB/s; alone, and all pairs at "
			"once");
	fprintf(out, "%15s%24s%18s%21s%21s\n", "", "us alone", "us at once",
		"GB/s alone", "GB/s at once");
	fprintf(out, "%-7s%-8s%6s%6s%6s%6s%6s%6s%6s%7s%7s%7s%7s%7s%7s\n",
		"pair", "state", "flag", "load", "copy", "host", "flag", "load",
		"copy", "store", "load", "copy", "store", "load", "copy");
	for (int i = 0; i < probe->gpus; i++)
		for (int j = 0; j < probe->gpus; j++)
			if (i != j)
				write_pair(probe, out, i, j);
}

static void write_sums(const struct probe *probe, const struct page *page)
{
	page_head(page, "All pairs at once: what each GPU moves, GB/s");
	fprintf(page->out, "%-5s%8s%8s%8s\n", "GPU", "store", "load", "copy");
	for (int i = 0; i < probe->gpus; i++) {
		fprintf(page->out, "%-5d", probe->gpu[i].ordinal);
		for (int way = 0; way < PROBE_WAYS; way++) {
			struct probe_figure sum = {0};

			for (int j = 0; j < probe->gpus; j++) {
				const struct probe_figure *figure =
					&probe->pair[i][j]
						 .rate[PROBE_TOGETHER][way];

				sum.known |= figure->known;
				sum.median += figure->median;
			}
			put_rate(page->out, 8, &sum);
		}
		fputc('\n', page->out);
	}
}

static void write_findings(const struct probe *probe, const struct page *page)
{
	struct probe_finding findings[PROBE_FINDINGS];
	int count = probe_find(probe, findings);

	page_head(page, "Findings");
	if (!count)
		page_write(page, 0, PAGE_GOOD, "none", "%s", "");
	for (int i = 0; i < count; i++) {
		page_write(page, 4, PAGE_BAD, "!", "%s", findings[i].title);
		if (*findings[i].evidence)
			page_write(page, 4, PAGE_PLAIN, "", "%s",
				   findings[i].evidence);
		page_write(page, 4, PAGE_PLAIN, "", "%s", findings[i].advice);
	}
}

static void write_about(const struct probe *probe,
			const struct probe_about *about,
			const struct page *page)
{
	char cuda[16];

	bench_cuda_version(probe->cuda, cuda, sizeof(cuda));
	page_write(page, 0, PAGE_PLAIN, "", "onehop %s; driver %s, CUDA %s; %s",
		   oh_version(), *about->driver ? about->driver : "unknown",
		   *cuda ? cuda : "unknown", about->machine.kernel);
}

void probe_write_text(const struct probe *probe,
		      const struct probe_about *about, bool colour, FILE *out)
{
	const struct page page = {out, WIDTH, colour};

	write_about(probe, about, &page);
	write_gpus(probe, &page);
	if (probe->left_out)
		page_write(&page, 0, PAGE_PLAIN, "",
			   "%d more GPUs are left out; name GPUs with --only",
			   probe->left_out);
	if (!probe->quick)
		write_memory(probe, &page);
	if (probe->gpus > 1)
		write_checks(probe, &page);
	if (probe->gpus > 1 && !probe->quick) {
		write_pairs(probe, &page);
		write_sums(probe, &page);
	}
	write_findings(probe, &page);
}
