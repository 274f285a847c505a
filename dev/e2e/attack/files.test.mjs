/**
 * A server that may open few files: it says so at the start, refuses connections at once instead of leaving them
 * hanging, answers a scrape beside silent ones, and serves again when there is room.
 */
import { test } from "node:test";
import assert from "node:assert/strict";
import { connect } from "node:net";
import { once } from "node:events";
import { throngOnly, within } from "../server.mjs";
import { CASE_MS_MAX, inParallel, startVictim } from "./rig.mjs";

const rest = (ms) => new Promise((rested) => setTimeout(rested, ms));

/** A connection; `closed` settles when the server ends it, in whatever way. */
async function open(host, port) {
  const socket = connect({ host, port: Number(port) });
  socket.on("error", () => {}).resume();
  const closed = new Promise((ended) => socket.once("close", ended));
  const connected = new Promise((begun) => socket.once("connect", begun));
  await Promise.race([connected, closed]);
  return { socket, closed };
}

const few = (files) => ["sh", "-c", `ulimit -n ${files}; exec "$@"`, "sh"];

/** The ring needs some more to start. */
for (const [files, options] of [[200, {}], [64, { "engine.driver": "poll" }]]) {
  const name = `with ${files} files connections are refused at once, and served when there is room`;
  test(name, throngOnly, () => refusedAndServed(files, options));
}

async function refusedAndServed(files, options) {
  const server = await startVictim({ prefix: few(files), options });
  try {
    assert.match(server.logTail(), /the limit of open files/);
    const silent = await inParallel(20, 20, () => open(server.host, server.metricsPort));
    const opened = await inParallel(3 * files, 32, () => open(server.host, server.port));
    // Whoever is refused hears of it.
    let refused = 0;
    for (const { closed } of opened) closed.then(() => refused++);
    await rest(1_000);
    assert.ok(refused >= files, `${refused} of ${opened.length} were closed`);
    const left = opened.filter(({ socket }) => !socket.destroyed);
    const ask = async () => {
      const response = await fetch(`${server.url}/healthcheck`, { headers: { connection: "close" } });
      return response.status;
    };
    // The rest is served.
    const answers = left.map(({ socket }) => {
      socket.write("GET /healthcheck HTTP/1.1\r\nHost: a\r\n\r\n");
      return once(socket, "data");
    });
    const served = Promise.any(answers);
    const [answer] = await within(served, CASE_MS_MAX, () => "no answer");
    assert.match(String(answer), /^HTTP\/1.1 200 /);
    const counters = await within(server.counters(), CASE_MS_MAX, () => "no scrape beside silent ones");
    assert.ok(counters.of("accept_refused") + counters.of("accept_failures") > 0);
    assert.match(server.logTail(), /open files/);
    for (const { socket } of [...opened, ...silent]) socket.destroy();
    let status;
    for (const end = Date.now() + 5_000; status !== 200 && Date.now() < end; await rest(50)) {
      status = await ask().catch(String);
    }
    assert.equal(status, 200);
  } finally {
    await server.stop();
  }
}

test("with too few files to start the server says what it lacks", throngOnly, async () => {
  const failed = await startVictim({ prefix: few(16) }).then(
    (server) => server.stop().then(() => "it started"),
    (error) => String(error),
  );
  assert.match(failed, /throng: the limit of open files is 16/, failed);
});
