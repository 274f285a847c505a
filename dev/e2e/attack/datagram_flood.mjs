/**
 * A flood of datagrams, as a thread of its own, so that it keeps nobody but the server busy. Started by
 * datagrams.test.mjs.
 *
 * In, as the thread's data: `{kind, key, id, port, ms, from}`, where `key` and `id` are a session's in hexadecimal and `from` is
 * the address to send from. Out, as one message: `{sent, came}`, datagrams sent and bytes that came back.
 */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { parentPort, workerData } from "node:worker_threads";
import { CLIENT_DATA, message, PROBE, seal } from "../../../examples/datagrams/datagrams.mjs";

const BURST = 32;
const { kind, port, ms, from } = workerData;
const [key, id] = [workerData.key, workerData.id].map((text) => Buffer.from(text, "hex"));

/** What makes the datagram of a number. */
const MAKE = {
  noise: () => Buffer.alloc(1_200, 3),
  forged() {
    const forged = Buffer.alloc(1_200, 7);
    forged[0] = CLIENT_DATA;
    id.copy(forged, 1);
    return forged;
  },
  own: (sequence) => seal(key, { kind: CLIENT_DATA, id, sequence }, BODY),
  probes: (sequence) => seal(key, { kind: PROBE, id, sequence }, Buffer.alloc(1_163)),
};
const BODY = message("5a0e8b1c-0000-4000-8000-000000000001.nakama", 1, Buffer.alloc(1_000));

const socket = createSocket("udp4");
socket.bind(0, from);
await once(socket, "listening");
let [sent, came] = [0, 0];
socket.on("message", (bytes) => (came += bytes.length));
for (const end = Date.now() + ms; Date.now() < end;) {
  const burst = Array.from({ length: BURST }, () => {
    sent += 1;
    const bytes = MAKE[kind](sent);
    return new Promise((done) => socket.send(bytes, port, "127.0.0.1", done));
  });
  await Promise.all(burst);
  await new Promise(setImmediate); // What comes back is counted between.
}
socket.close();
parentPort.postMessage({ sent, came });
