/* runner.h - the process that starts, times, reaps and ends handlers (layer: runner).
 *
 * Single-threaded; the only place that forks. It is our own binary executed again with RUNNER_ARGUMENT as its only argument
 * and the command socket as descriptor RUNNER_SOCKET_FD, before anything of the daemon (database library, threads) exists in
 * it. */
#ifndef LEASEHOLD_RUNNER_RUNNER_H
#define LEASEHOLD_RUNNER_RUNNER_H

#define RUNNER_ARGUMENT "--runner"
#define RUNNER_SOCKET_FD 3

/* Serves commands until the socket closes, then ends every group at once, reaps, and returns the exit status. */
int runner_main(int socket);

#endif
