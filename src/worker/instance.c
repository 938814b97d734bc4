#include "worker/instance.h"

#include "base/clock.h"
#include "worker/role.h"
#include "worker/slot_keeper.h"

#define INSTANCE_CROWDED_MS 2000

const char *instance_mode_name(int mode)
{
	static const char *const names[] = { "running", "quiet", "draining", "stopping" };

	return mode >= 0 && mode < (int)(sizeof(names) / sizeof(names[0])) ? names[mode] : "unknown";
}

bool instance_claims(const struct instance *in)
{
	return atomic_load(&in->mode) == INSTANCE_RUNNING;
}

struct settings *instance_settings(struct instance *in)
{
	struct settings *s;

	pthread_mutex_lock(&in->settings_lock);
	s = settings_ref(in->current);
	pthread_mutex_unlock(&in->settings_lock);
	return s;
}

void instance_swap_settings(struct instance *in, struct settings *settings)
{
	struct settings *old;

	pthread_mutex_lock(&in->settings_lock);
	old = in->current;
	in->current = settings;
	pthread_mutex_unlock(&in->settings_lock);
	settings_unref(old);
	parking_reload(in->parking, settings);
	role_nudge(in->promoter);
	slot_keeper_renew(in->slot_keeper);
	instance_nudge_claimers(in);
}

void instance_nudge_claimers(struct instance *in)
{
	for (unsigned int p = 0; p < in->pool_count; p++)
		role_nudge(in->pools[p].claimer);
}

void instance_crowded(struct instance *in)
{
	atomic_store(&in->crowded_until_ms, clock_boot_ms() + INSTANCE_CROWDED_MS);
	instance_nudge_claimers(in);
}
