/* utf8.c - see utf8.h. Table 3-7 and section 3.9 ("U+FFFD Substitution of Maximal Subparts") of the Unicode Standard 15. */
#include "base/utf8.h"

#include <string.h>

#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* Which bytes may begin a character, how long it is, and what its second byte may be; all later bytes are 80..BF. */
struct utf8_form {
	unsigned char first_min, first_max, second_min, second_max;
	unsigned char len;
};

static const struct utf8_form utf8_forms[] = {
	{0x00, 0x7f, 0x00, 0x00, 1},
	{0xc2, 0xdf, 0x80, 0xbf, 2},
	{0xe0, 0xe0, 0xa0, 0xbf, 3},
	{0xe1, 0xec, 0x80, 0xbf, 3},
	{0xed, 0xed, 0x80, 0x9f, 3},
	{0xee, 0xef, 0x80, 0xbf, 3},
	{0xf0, 0xf0, 0x90, 0xbf, 4},
	{0xf1, 0xf3, 0x80, 0xbf, 4},
	{0xf4, 0xf4, 0x80, 0x8f, 4},
};

static const struct utf8_form *utf8_find_form(unsigned char first)
{
	for (size_t i = 0; i < sizeof(utf8_forms) / sizeof(utf8_forms[0]); i++) {
		if (first >= utf8_forms[i].first_min && first <= utf8_forms[i].first_max)
			return &utf8_forms[i];
	}
	return NULL;
}

/* How many bytes at p (len > 0 of them) are the beginning of the form; its whole length when the character is complete. */
static size_t utf8_match(const struct utf8_form *form, const unsigned char *p, size_t len)
{
	size_t n = 1;

	if (form->len > 1 && len > 1 && (p[1] < form->second_min || p[1] > form->second_max))
		return 1;
	while (n < form->len && n < len && (n == 1 || (p[n] & 0xc0) == 0x80))
		n++;
	return n;
}

size_t utf8_next(const char *bytes, size_t len, bool *well_formed)
{
	const unsigned char *p = (const unsigned char *)bytes;
	const struct utf8_form *form = utf8_find_form(p[0]);
	size_t n = form == NULL ? 1 : utf8_match(form, p, len);

	*well_formed = form != NULL && n == form->len;
	return n;
}

bool utf8_valid(const char *bytes, size_t len)
{
	bool well_formed;

	for (size_t at = 0; at < len;) {
		if (bytes[at] == '\0')
			return false;
		at += utf8_next(bytes + at, len - at, &well_formed);
		if (!well_formed)
			return false;
	}
	return true;
}

size_t utf8_cut(const char *bytes, size_t len)
{
	const unsigned char *p = (const unsigned char *)bytes;

	/* The start of a character that the end cuts through lies one to three bytes before it. Bytes that are no such
	 * start are left alone. */
	for (size_t back = 1; back <= 3 && back <= len; back++) {
		const struct utf8_form *form = utf8_find_form(p[len - back]);

		if (form != NULL)
			return form->len > back && utf8_match(form, p + len - back, back) == back ? len - back : len;
	}
	return len;
}

/* Adds as many whole characters as fit. */
static void utf8_add(struct buf *out, const char *bytes, size_t len)
{
	size_t room = out->limit - out->len, fits = len > room ? utf8_cut(bytes, room) : len;

	buf_add(out, bytes, fits);
	if (fits < len)
		out->bad = true;
}

void utf8_sanitise(struct buf *out, const char *bytes, size_t len)
{
	size_t from = 0, at = 0;

	while (at < len) {
		bool well_formed;
		size_t n = utf8_next(bytes + at, len - at, &well_formed);

		if (!well_formed || bytes[at] == '\0') {
			utf8_add(out, bytes + from, at - from);
			buf_adds(out, UTF8_REPLACEMENT);
			from = at + n;
		}
		at += n;
	}
	utf8_add(out, bytes + from, len - from);
}
