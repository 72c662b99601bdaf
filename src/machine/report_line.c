/* SPDX-License-Identifier: MIT */
/*
 * A line as a person pasted it, without what terminals, browsers and log
 * collectors have put around it. Cleaned lines are C strings: NUL bytes are
 * left out, which also makes UTF-16 of ASCII text readable (PowerShell writes
 * it). Nothing here depends on the locale.
 */
#include "machine/report_private.h"

#include <string.h>

bool oh__is_blank(char letter)
{
	return letter == ' ' || letter == '\t';
}

static bool is_digit(char letter)
{
	return letter >= '0' && letter <= '9';
}

static bool is_upper(char letter)
{
	return letter >= 'A' && letter <= 'Z';
}

static bool is_letter(char letter)
{
	return is_upper(letter) || (letter >= 'a' && letter <= 'z');
}

static bool is_hex(char letter)
{
	return is_digit(letter) || (letter >= 'a' && letter <= 'f') ||
	       (letter >= 'A' && letter <= 'F');
}

const char *oh__skip_blanks(const char *text)
{
	while (oh__is_blank(*text))
		text++;
	return text;
}

size_t oh__trimmed(const char *text, size_t bytes)
{
	while (bytes && oh__is_blank(text[bytes - 1]))
		bytes--;
	return bytes;
}

bool oh__read_number(const char **text, uint64_t *value)
{
	const char *at = *text;
	uint64_t sum = 0;

	if (!is_digit(*at))
		return false;
	for (; is_digit(*at); at++) {
		if (sum > (uint64_t)INT64_MAX / 10 - 1)
			return false;
		sum = sum * 10 + (uint64_t)(*at - '0');
	}
	*text = at;
	*value = sum;
	return true;
}

size_t oh__version_length(const char *text)
{
	size_t length = 0;

	if (!is_digit(*text))
		return 0;
	while (is_digit(text[length]) || is_letter(text[length]) ||
	       (text[length] && strchr(".+-_", text[length])))
		length++;
	return memchr(text, '.', length) ? length : 0;
}

const char *oh__value_of(const char *text, const char *key)
{
	size_t length = strlen(key);

	if (!oh__begins(text, key))
		return NULL;
	text = oh__skip_blanks(text + length);
	return *text == ':' ? oh__skip_blanks(text + 1) : NULL;
}

static size_t hex_length(const char *text)
{
	size_t length = 0;

	while (is_hex(text[length]))
		length++;
	return length;
}

static char lower(char letter)
{
	return is_upper(letter) ? (char)(letter - 'A' + 'a') : letter;
}

/* [domain:]bus:device.function; NVML's domain has eight digits. */
size_t oh__read_pci(const char *text, char address[16])
{
	size_t domain = hex_length(text), used = 0;
	char domain_text[5] = "0000";

	if (text[domain] != ':')
		return 0;
	if (domain == 4 || domain == 8) {
		if (domain == 8 && strncmp(text, "0000", 4))
			return 0;
		memcpy(domain_text, text + domain - 4, 4);
		used = domain + 1;
	}
	if (hex_length(text + used) != 2 || text[used + 2] != ':' ||
	    hex_length(text + used + 3) != 2 || text[used + 5] != '.' ||
	    hex_length(text + used + 6) != 1)
		return 0;
	memcpy(address, domain_text, 4);
	address[4] = ':';
	memcpy(address + 5, text + used, 7);
	address[12] = '\0';
	for (char *letter = address; *letter; letter++)
		*letter = lower(*letter);
	return used + 7;
}

/* How products are called. */
static const char *const brands[] = {
	"NVIDIA ", "Tesla ", "GeForce ", "Quadro ", "TITAN ",
	"GRID ",   "A100",   "A10",	 "A30",	    "A40",
	"H100",	   "H200",   "L4",	 "T4",	    "RTX ",
};

/* Names are made of words that begin with a capital or a digit. */
bool oh__is_product(const char *text, size_t bytes)
{
	bool brand = false, start = true;
	int words = 0;

	for (size_t i = 0; i < sizeof(brands) / sizeof(*brands); i++)
		brand |= bytes >= strlen(brands[i]) &&
			 !memcmp(text, brands[i], strlen(brands[i]));
	if (!brand || bytes > 80)
		return false;
	for (size_t i = 0; i < bytes; i++) {
		bool with = bytes - i > 4 && !memcmp(text + i, "with", 4);

		if (start && !is_upper(text[i]) && !is_digit(text[i]) && !with)
			return false;
		if (!is_letter(text[i]) && !is_digit(text[i]) &&
		    !strchr(" -.()/+", text[i]))
			return false;
		words += start;
		start = text[i] == ' ';
	}
	/* a sentence of one capital word more ends somewhere, too */
	return words <= 10 && text[bytes - 1] != '.';
}

/* What browsers and chat programs make of signs, and Markdown's emphasis. */
static const struct {
	const char *from;
	char to; /* '\0': nothing */
} entities[] = {
	{"&nbsp;", ' '},	{"&#160;", ' '},       {"&#9;", '\t'},
	{"&Tab;", '\t'},	{"&lt;", '<'},	       {"&gt;", '>'},
	{"&amp;", '&'},		{"&quot;", '"'},       {"&#39;", '\''},
	{"&apos;", '\''},	{"\xc2\xa0", ' '},     {"\xe2\x80\x87", ' '},
	{"\xe2\x80\x89", ' '},	{"\xe2\x80\xaf", ' '}, {"\xe2\x80\x8b", '\0'},
	{"\xef\xbb\xbf", '\0'}, {"<br>", '\0'},	       {"<br/>", '\0'},
	{"<pre>", '\0'},	{"</pre>", '\0'},      {"<code>", '\0'},
	{"</code>", '\0'},	{"**", '\0'},	       {"`", '\0'},
};

static size_t replace_entity(const char *raw, size_t bytes, char **out)
{
	for (size_t i = 0; i < sizeof(entities) / sizeof(*entities); i++) {
		const char *from = entities[i].from;
		size_t length;

		if (*raw != *from)
			continue;
		length = strlen(from);
		if (bytes < length || memcmp(raw, from, length))
			continue;
		if (entities[i].to)
			*(*out)++ = entities[i].to;
		return length;
	}
	return 0;
}

/* How the escape sign is spelt where it did not survive as a byte. */
static const char *const escapes[] = {"\x1b",  "^[",  "\\x1b",	      "\\u001b",
				      "\\033", "\\e", "\xe2\x90\x9b", ""};

/* The length of "ESC [ parameters letter"; without the escape only what ends
 * in "m" counts, as "[0m". */
static size_t sequence_length(const char *raw, size_t bytes)
{
	size_t used = 0;
	bool bare = false;

	for (size_t i = 0; i < sizeof(escapes) / sizeof(*escapes); i++) {
		bare = !*escapes[i];
		if (!bare && *raw != *escapes[i])
			continue;
		used = strlen(escapes[i]);
		if (bytes >= used && !memcmp(raw, escapes[i], used))
			break;
	}
	if (used >= bytes)
		return bare ? 0 : used;
	if (*raw == '\x1b' && raw[used] == '(')
		return bytes > 2 ? 3 : 2; /* a character set */
	if (raw[used] != '[')
		return *raw == '\x1b' ? 2 : 0;
	for (used++; used < bytes && (is_digit(raw[used]) || raw[used] == ';' ||
				      raw[used] == '?');)
		used++;
	if (used == bytes || !is_letter(raw[used]))
		return *raw == '\x1b' ? used : 0;
	if (*raw != '\x1b' && (raw[used] != 'm' || !is_digit(raw[used - 1])))
		return 0;
	return used + 1;
}

/* Bytes with which something begins that is replaced. */
static const bool special[256] = {
	[0 ... 0x1f] = true, [0x7f ... 0xff] = true, ['&'] = true,
	['<'] = true,	     ['['] = true,	     ['^'] = true,
	['\\'] = true,	     ['*'] = true,	     ['`'] = true,
};

static size_t skip_special(const char *raw, size_t bytes, char **out)
{
	size_t length = sequence_length(raw, bytes);

	if (!length)
		length = replace_entity(raw, bytes, out);
	if (length)
		return length;
	/* other control characters are left out */
	if ((unsigned char)*raw >= 0x20 || *raw == '\t')
		*(*out)++ = *raw;
	return 1;
}

void oh__line_clean(const char *raw, size_t bytes, char *line, size_t room)
{
	const char *end = raw + (bytes < room ? bytes : room - 1);
	char *out = line;

	while (raw < end) {
		const char *run = raw;

		while (raw < end && !special[(unsigned char)*raw])
			raw++;
		memcpy(out, run, (size_t)(raw - run));
		out += raw - run;
		if (raw < end)
			raw += skip_special(raw, (size_t)(end - raw), &out);
	}
	while (out > line && oh__is_blank(out[-1]))
		out--;
	*out = '\0';
}

/* Digits for 0, the rest as it is: "0000-00-00". */
static bool has_shape(const char *text, const char *shape)
{
	for (; *shape; text++, shape++)
		if (*shape == '0' ? !is_digit(*text) : *shape != *text)
			return false;
	return true;
}

static const char *behind_word(const char *text)
{
	while (*text && !oh__is_blank(*text))
		text++;
	return text;
}

/* "2026-08-06T02:11:09.123Z " and "2026-08-06 02:11:09,123 " */
static const char *skip_time(const char *text)
{
	if (!has_shape(text, "0000-00-00"))
		return text;
	if (text[10] != 'T' && text[10] != ' ')
		return text;
	return has_shape(text + 11, "00:00:00") ? behind_word(text + 11) : text;
}

/* "Aug 06 02:11:09 host vllm[123]: " */
static const char *skip_journal(const char *text)
{
	const char *at = text;

	if (!is_upper(at[0]) || !is_letter(at[1]) || !is_letter(at[2]) ||
	    at[3] != ' ')
		return text;
	at = oh__skip_blanks(at + 3);
	if (!is_digit(*at))
		return text;
	at = oh__skip_blanks(behind_word(at));
	if (!has_shape(at, "00:00:00"))
		return text;
	at = behind_word(oh__skip_blanks(behind_word(at)));
	at = behind_word(oh__skip_blanks(at));
	return at[-1] == ':' ? at : text;
}

/* "[12.345678] ", "[pod/name] ", "(Worker pid=12) ", but not "[pip3] ". */
static const char *skip_bracket(const char *text)
{
	const char *end = *text == '['	 ? strchr(text, ']')
			  : *text == '(' ? strchr(text, ')')
					 : NULL;
	bool told = false;

	if (!end || end - text > 96 || (end[1] && !oh__is_blank(end[1])) ||
	    !strncmp(text, "[pip", 4))
		return text;
	for (const char *at = text; at < end; at++)
		told |= is_digit(*at) || *at == '/';
	return told ? end + 1 : text;
}

/* "worker-1  | " of docker compose; the table of nvidia-smi begins with the
 * bar. */
static const char *skip_service(const char *text)
{
	const char *at = text;

	while (is_letter(*at) || is_digit(*at) || (*at && strchr("_-.", *at)))
		at++;
	if (at == text || !oh__is_blank(*at))
		return text;
	at = oh__skip_blanks(at);
	return *at == '|' && oh__is_blank(at[1]) ? at + 1 : text;
}

/* Quotations, lists, line numbers, and Kubernetes' "stdout F ". */
static const char *skip_mark(const char *text)
{
	static const char *const marks[] = {
		"stdout F ", "stderr F ", "stdout P ", "stderr P ",
		"- ",	     "* ",	  "> ",	       "\xe2\x80\xa2 ",
	};
	const char *at = text;

	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++)
		if (oh__begins(text, marks[i]))
			return text + strlen(marks[i]);
	if (*text == '>')
		return text + 1;
	while (is_digit(*at))
		at++;
	return at > text && *at == ':' && oh__is_blank(at[1]) ? at + 1 : text;
}

const char *oh__line_body(const char *line)
{
	static const char *(*const skips[])(const char *) = {
		skip_time, skip_journal, skip_bracket, skip_service, skip_mark,
	};
	const char *text = oh__skip_blanks(line);

	for (int rounds = 0; rounds < 8; rounds++) {
		const char *before = text;

		for (size_t i = 0; i < sizeof(skips) / sizeof(*skips); i++)
			text = oh__skip_blanks(skips[i](text));
		if (text == before)
			break;
	}
	return text;
}
