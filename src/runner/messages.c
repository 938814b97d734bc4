/* messages.c - see messages.h. */
#include "runner/messages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* The order on the wire. The status pipe goes first: when the runner's table of descriptors is nearly full, it is the one that
 * still arrives, and the runner can say why nothing was started. */
static const enum runner_fd messages_fd_order[RUNNER_FDS] = {
	RUNNER_FD_STATUS, RUNNER_FD_STDIN, RUNNER_FD_STDOUT, RUNNER_FD_STDERR, RUNNER_FD_CONTROL,
};

union messages_ancillary {
	char bytes[CMSG_SPACE(sizeof(int) * RUNNER_FDS)];
	struct cmsghdr aligned;
};

const char *runner_stage_name(uint32_t stage)
{
	static const char *const names[RUNNER_STAGES] = {
		[RUNNER_STAGE_NONE] = "none",     [RUNNER_STAGE_FORK] = "fork",
		[RUNNER_STAGE_SETUP] = "set-up",  [RUNNER_STAGE_LIMITS] = "setrlimit",
		[RUNNER_STAGE_GROUP] = "control group",
		[RUNNER_STAGE_USER] = "setuid",   [RUNNER_STAGE_CWD] = "chdir",
		[RUNNER_STAGE_EXEC] = "execve",
	};

	return stage < RUNNER_STAGES ? names[stage] : "unknown";
}

void runner_tell(int status_fd, const struct runner_report *report)
{
	ssize_t n;

	do
		n = write(status_fd, report, sizeof(*report));
	while (n < 0 && errno == EINTR);
}

/* Counts the strings of a NULL-terminated array, and adds their bytes to *size. */
static uint32_t messages_measure(char *const *strings, size_t *size)
{
	uint32_t count = 0;

	for (; strings[count] != NULL && *size <= RUNNER_MESSAGE_MAX; count++)
		*size += strlen(strings[count]) + 1;
	return count;
}

static char *messages_put(char *at, const void *bytes, size_t len)
{
	if (len > 0)
		memcpy(at, bytes, len);
	return at + len;
}

static char *messages_put_strings(char *at, char *const *strings, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		at = messages_put(at, strings[i], strlen(strings[i]) + 1);
	return at;
}

static enum lh_err messages_check(const struct runner_start *start, struct fault *f)
{
	if (start->argv[0] == NULL || start->argv[0][0] == '\0')
		return fault_set(f, LH_ERR_INPUT, "a run without a program: its command is empty");
	for (int i = 0; i < RUNNER_FDS; i++) {
		if (start->fds[i] < 0)
			return fault_set(f, LH_ERR_INPUT, "a run without descriptor %d of the %d that it needs", i, RUNNER_FDS);
	}
	return LH_OK;
}

/* The datagram of a START; the caller frees *out. */
static enum lh_err messages_encode(const struct runner_start *start, char **out, size_t *len, struct fault *f)
{
	struct runner_command command = start->command;
	const char *cwd = start->cwd == NULL ? "" : start->cwd;
	size_t size = sizeof(command) + command.group_count * sizeof(gid_t) + strlen(cwd) + 1;
	char *at;

	command.argc = messages_measure(start->argv, &size);
	command.envc = messages_measure(start->env, &size);
	if (size > RUNNER_MESSAGE_MAX)
		return fault_set(f, LH_ERR_LIMIT, "command and environment of %s take more than %u bytes", start->argv[0],
				 RUNNER_MESSAGE_MAX);
	*out = malloc(size);
	if (*out == NULL)
		return fault_set(f, LH_ERR_MEMORY, "no memory for the %zu bytes that start %s", size, start->argv[0]);
	*len = size;
	at = messages_put(*out, &command, sizeof(command));
	at = messages_put(at, start->groups, command.group_count * sizeof(gid_t));
	at = messages_put(at, cwd, strlen(cwd) + 1);
	at = messages_put_strings(at, start->argv, command.argc);
	messages_put_strings(at, start->env, command.envc);
	return LH_OK;
}

static void messages_attach(struct msghdr *message, union messages_ancillary *ancillary, const int fds[RUNNER_FDS])
{
	struct cmsghdr *header;
	int ordered[RUNNER_FDS];

	for (int i = 0; i < RUNNER_FDS; i++)
		ordered[i] = fds[messages_fd_order[i]];
	memset(ancillary, 0, sizeof(*ancillary));
	message->msg_control = ancillary->bytes;
	message->msg_controllen = sizeof(ancillary->bytes);
	header = CMSG_FIRSTHDR(message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(ordered));
	memcpy(CMSG_DATA(header), ordered, sizeof(ordered));
}

static enum lh_err messages_fault(int errno_value, struct fault *f)
{
	enum lh_err code = LH_ERR_SYSTEM;

	if (errno_value == EPIPE || errno_value == ECONNRESET || errno_value == ECONNREFUSED || errno_value == ENOTCONN)
		code = LH_ERR_LOST;
	else if (errno_value == EMSGSIZE)
		code = LH_ERR_LIMIT;
	fault_set_errno(f, errno_value, "cannot send to the runner");
	if (f != NULL)
		f->code = code;
	return code;
}

enum lh_err runner_send(int socket, const struct runner_command *command, const struct runner_start *start, struct fault *f)
{
	/* sendmsg only reads, but its type does not say so. */
	struct iovec part = {.iov_base = (void *)(uintptr_t)command, .iov_len = sizeof(*command)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	union messages_ancillary ancillary;
	char *datagram = NULL;
	enum lh_err err = LH_OK;
	ssize_t sent;

	if (start != NULL) {
		err = messages_check(start, f);
		if (err == LH_OK)
			err = messages_encode(start, &datagram, &part.iov_len, f);
		if (err != LH_OK)
			return err;
		part.iov_base = datagram;
		messages_attach(&message, &ancillary, start->fds);
	}
	do
		sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		err = messages_fault(errno, f);
	free(datagram);
	return err;
}

/* Takes count strings from the bytes between *at and end. False when one of them does not end before end. */
static bool messages_take_strings(char **at, const char *end, char **strings, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		char *nul = *at < end ? memchr(*at, '\0', (size_t)(end - *at)) : NULL;

		if (nul == NULL)
			return false;
		strings[i] = *at;
		*at = nul + 1;
	}
	return true;
}

static bool messages_decode_start(char *bytes, size_t len, struct runner_received *out)
{
	const struct runner_command *command = &out->command;
	char *at = bytes + sizeof(*command), *end = bytes + len, *cwd;
	size_t groups_size = (size_t)command->group_count * sizeof(gid_t), left = len - sizeof(*command);

	/* Each count is held against the bytes that are there before it is used for anything. */
	if (command->timeout_ms < 0 || command->switch_user > 1 || command->argc == 0 || groups_size > left ||
	    (uint64_t)command->argc + command->envc + 1 > left - groups_size || (uintptr_t)at % _Alignof(gid_t) != 0)
		return false;
	out->groups = (const gid_t *)(const void *)at;
	at += groups_size;
	out->argv = calloc((size_t)command->argc + command->envc + 2, sizeof(*out->argv));
	if (out->argv == NULL)
		return false;
	out->env = out->argv + command->argc + 1;
	if (!messages_take_strings(&at, end, &cwd, 1) || !messages_take_strings(&at, end, out->argv, command->argc) ||
	    !messages_take_strings(&at, end, out->env, command->envc) || at != end || out->argv[0][0] == '\0') {
		free(out->argv);
		out->argv = NULL;
		return false;
	}
	out->cwd = cwd[0] == '\0' ? NULL : cwd;
	return true;
}

bool runner_decode(void *bytes, size_t len, struct runner_received *out)
{
	memset(out, 0, sizeof(*out));
	for (int i = 0; i < RUNNER_FDS; i++)
		out->fds[i] = -1;
	if (len < sizeof(out->command))
		return false;
	memcpy(&out->command, bytes, sizeof(out->command));
	if (out->command.grace_ms < 0 || out->command.ask_ms < 0)
		return false;
	switch (out->command.verb) {
	case RUNNER_START:
		return messages_decode_start(bytes, len, out);
	case RUNNER_DEADLINE:
		return len == sizeof(out->command);
	case RUNNER_END:
		return len == sizeof(out->command) && out->command.reason < END_REASONS;
	case RUNNER_ASSIGN:
		return len == sizeof(out->command) && out->command.timeout_ms >= 0;
	default:
		return false;
	}
}

/* Copies the descriptors that came with a message; returns how many. */
static int messages_take_fds(struct msghdr *message, int fds[RUNNER_FDS])
{
	struct cmsghdr *header;
	size_t size;

	for (header = CMSG_FIRSTHDR(message); header != NULL; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		size = header->cmsg_len - CMSG_LEN(0);
		if (size > sizeof(int) * RUNNER_FDS)
			size = sizeof(int) * RUNNER_FDS;
		memcpy(fds, CMSG_DATA(header), size);
		return (int)(size / sizeof(int));
	}
	return 0;
}

/* A START has five descriptors, or at least the first where the table was too full for all; the other verbs have none. */
static bool messages_fds_fit(const struct runner_received *r, int count, bool cut)
{
	if (r->command.verb != RUNNER_START)
		return count == 0 && !cut;
	return count == RUNNER_FDS || (cut && count > 0);
}

int runner_receive(int socket, void *buffer, size_t size, struct runner_received *out)
{
	struct iovec part = {.iov_base = buffer, .iov_len = size};
	union messages_ancillary ancillary;
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = ancillary.bytes, .msg_controllen = sizeof(ancillary)};
	int fds[RUNNER_FDS], count;
	bool good;
	ssize_t n;

	do
		n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	/* Without memory the message stays where it is, and the next wake-up asks for it again. */
	if (n < 0 && (errno == EAGAIN || errno == ENOMEM || errno == ENOBUFS))
		return 0;
	if (n <= 0)
		return -1;
	count = messages_take_fds(&message, fds);
	good = (message.msg_flags & MSG_TRUNC) == 0 && runner_decode(buffer, (size_t)n, out);
	if (good && messages_fds_fit(out, count, (message.msg_flags & MSG_CTRUNC) != 0)) {
		for (int i = 0; i < count; i++)
			out->fds[messages_fd_order[i]] = fds[i];
		return 1;
	}
	for (int i = 0; i < count; i++)
		close(fds[i]);
	if (good)
		runner_received_free(out);
	return -2;
}

void runner_received_free(struct runner_received *r)
{
	free(r->argv);
	r->argv = NULL;
	r->env = NULL;
	for (int i = 0; i < RUNNER_FDS; i++) {
		if (r->fds[i] >= 0)
			close(r->fds[i]);
		r->fds[i] = -1;
	}
}
