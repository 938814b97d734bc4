/* conf_file.c - reading a small text file with suspicion. */
#include "config/conf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum lh_err conf_file_open(const char *path, size_t max, int *fd, struct stat *status, struct fault *f)
{
	*status = (struct stat){0};
	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (*fd < 0)
		return fault_set_errno(f, errno, "cannot open");
	if (fstat(*fd, status))
		return fault_set_errno(f, errno, "cannot stat");
	if (S_ISDIR(status->st_mode))
		return fault_set(f, LH_ERR_INPUT, "is a directory, not a file");
	if (!S_ISREG(status->st_mode))
		return fault_set(f, LH_ERR_INPUT, "is not a regular file");
	if (status->st_size > (off_t)max)
		return fault_set(f, LH_ERR_INPUT, "is too large: at most %zu bytes, not %lld", max, (long long)status->st_size);
	return LH_OK;
}

/* Fills text with up to size bytes; a file that grows meanwhile is cut, and the caller sees it by *len. */
static enum lh_err conf_file_fill(int fd, char *text, size_t size, size_t *len, struct fault *f)
{
	*len = 0;
	while (*len < size) {
		ssize_t got = read(fd, text + *len, size - *len);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fault_set_errno(f, errno, "cannot read");
		if (!got)
			break;
		*len += (size_t)got;
	}
	return LH_OK;
}

enum lh_err conf_file_read(const char *path, size_t max, char **text, size_t *len, struct stat *status, struct fault *f)
{
	struct stat own;
	enum lh_err err;
	char *bytes = NULL;
	size_t size;
	int fd = -1;

	if (!status)
		status = &own;
	err = conf_file_open(path, max, &fd, status, f);
	if (err)
		goto out;
	size = (size_t)status->st_size + 1; /* one more, to see that it grew */
	bytes = malloc(size + 1);
	if (!bytes) {
		err = fault_set(f, LH_ERR_MEMORY, "out of memory");
		goto out;
	}
	err = conf_file_fill(fd, bytes, size, len, f);
	if (!err && *len == size)
		err = fault_set(f, LH_ERR_INPUT, "was being written while it was read");
	if (err)
		goto out;
	bytes[*len] = '\0';
	*text = bytes;
	bytes = NULL;
out:
	free(bytes);
	if (fd >= 0)
		close(fd);
	return err;
}

static bool conf_file_starts(const char *text, size_t len, const char *mark, size_t mark_len)
{
	return len >= mark_len && !memcmp(text, mark, mark_len);
}

enum lh_err conf_file_check(const char *text, size_t len, unsigned int *line, struct fault *f)
{
	const char *nul = memchr(text, '\0', len);

	*line = 1;
	if (conf_file_starts(text, len, "\xff\xfe", 2) || conf_file_starts(text, len, "\xfe\xff", 2))
		return fault_set(f, LH_ERR_INPUT, "starts with a UTF-16 byte order mark: save it as UTF-8");
	if (conf_file_starts(text, len, "\xef\xbb\xbf", 3))
		return fault_set(f, LH_ERR_INPUT, "starts with a byte order mark: save it as UTF-8 without one");
	if (!nul)
		return LH_OK;
	for (const char *p = text; p < nul; p++)
		*line += *p == '\n';
	return fault_set(f, LH_ERR_INPUT, "holds a NUL byte: this is not a text file");
}
