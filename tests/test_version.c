/* SPDX-License-Identifier: MIT */
/* Versions as engines print them, read and compared. */
#include <string.h>

#include "doctor/version.h"
#include "tap.h"

static void try_versions(void)
{
	static const struct {
		const char *text;
		bool known;
		int part[3];
		const char *kept;
	} versions[] = {
		{"0.16.0rc2.dev313+g662205d34",
		 true,
		 {0, 16, 0},
		 "0.16.0rc2.dev313+g662205d34"},
		{"v0.6.6.post1", true, {0, 6, 6}, "0.6.6.post1"},
		{" 2.28.9+cuda12.9\n", true, {2, 28, 9}, "2.28.9+cuda12.9"},
		{"0.30", true, {0, 30, 0}, "0.30"},
		{"7", true, {7, 0, 0}, "7"},
		/* a .0 patch as vLLM prints NCCL's */
		{"2.28.", true, {2, 28, 0}, "2.28"},
		{"1.2.3.4", true, {1, 2, 3}, "1.2.3.4"},
		{"99999999999999999999.1",
		 true,
		 {2147483647, 1, 0},
		 "99999999999999999999.1"},
		{"latest", false, {0}, ""},
		{"", false, {0}, ""},
		{"v", false, {0}, ""},
		{".5", false, {0}, ""},
		{"-1", false, {0}, ""},
	};
	struct version a, b;
	char longest[200];

	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
		bool known = version_parse(versions[i].text, &a);

		tap_ok(known == versions[i].known && a.known == known &&
			       !memcmp(a.part, versions[i].part,
				       sizeof(a.part)) &&
			       !strcmp(a.text, versions[i].kept),
		       "version %zu: \"%.30s\"", i, versions[i].kept);
	}
	memset(longest, '1', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	version_parse(longest, &a);
	tap_ok(strlen(a.text) == sizeof(a.text) - 1, "a long one is cut");
	version_parse("0.9.2", &a);
	version_parse("0.10.0rc1", &b);
	tap_ok(version_compare(&a, &b) < 0 && version_compare(&b, &a) > 0 &&
		       !version_compare(&a, &a),
	       "0.9.2 is before 0.10.0rc1");
	tap_ok(version_at_least(&b, "0.10") && !version_at_least(&a, "0.10"),
	       "0.10.0rc1 has what 0.10 has");
	tap_ok(version_at_least(&(struct version){0}, "99"),
	       "an unknown version is the newest");
}

int main(void)
{
	try_versions();
	return tap_done();
}
