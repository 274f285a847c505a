/**
 * Notes when a processor stands still: what the host of a virtual machine or a limit of a control group takes away.
 *
 * Started by machine.mjs once for each processor, held to it and before all others there (SCHED_FIFO, chrt(1)): it is
 * late only if the processor is. Out: a line `ready`, then a line `began ended` for each time that it woke too late,
 * milliseconds of the monotonic clock, which all processes of a machine share (`process.hrtime`). It ends when who
 * started it is gone. Not here: whose waits are compared with that.
 */
import { writeSync } from "node:fs";

/** How long it rests between two looks; what is shorter goes unseen. */
const REST_MS = 2;
/** Lateness that counts; a timer alone is late by some tenths. */
const LATE_MS_MIN = 5;

const now = () => Number(process.hrtime.bigint()) / 1e6;
const never = new Int32Array(new SharedArrayBuffer(4));
const parent = process.ppid;

writeSync(1, "ready\n");
while (process.ppid === parent) {
  const due = now() + REST_MS;
  Atomics.wait(never, 0, 0, REST_MS);
  const woke = now();
  if (woke - due > LATE_MS_MIN) writeSync(1, `${due.toFixed(1)} ${woke.toFixed(1)}\n`);
}
