/**
 * Threads for file system calls, set before anything makes them: imported by the entry, for this effect alone.
 *
 * Each write, sync and probe of a disk that hangs keeps a thread of libuv's pool until the disk answers. The pool has 4 by default:
 * four recordings on one hung disk would stop every other file, name look-up and password check of the node. A folder can hold one
 * thread a growing file and four more (a sync, a probe, two reads). A thread that waits costs some 20 KiB.
 */
const threads = "128"

process.env["UV_THREADPOOL_SIZE"] ??= threads
