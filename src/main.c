/* main.c - the one program in its two shapes: what the user calls, and the runner that the daemon starts from the same file. */
#include "cli/cli.h"
#include "runner/runner.h"

#include <string.h>

int main(int argc, char **argv)
{
	/* Before anything else: nothing of the database library may exist in the runner. */
	if (argc == 2 && strcmp(argv[1], RUNNER_ARGUMENT) == 0)
		return runner_main(RUNNER_SOCKET_FD);
	return cli_main(argc, argv);
}
