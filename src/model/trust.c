/* trust.c - see trust.h. */
#include "model/trust.h"

#define TRUST_MARGIN_LEAST_MS 200
#define TRUST_MARGIN_PERCENT 2

int64_t trust_margin_ms(int64_t lease_ms)
{
	int64_t margin = lease_ms / 100 * TRUST_MARGIN_PERCENT + lease_ms % 100 * TRUST_MARGIN_PERCENT / 100;

	return margin > TRUST_MARGIN_LEAST_MS ? margin : TRUST_MARGIN_LEAST_MS;
}

int64_t trust_until_ms(int64_t sent_ms, int64_t lease_ms)
{
	return sent_ms + lease_ms - trust_margin_ms(lease_ms);
}
