/**
 * A game server that behaves: it says that it is ready and well, and asks the Agones SDK for itself over REST and gRPC in
 * turns, one call at a time with a short rest. Started by `throng host` from ../host.test.mjs.
 *
 * Out: a line of JSON every half second, how many answers came and how long the slowest took: `{rest: {count, worst_ms},
 * grpc: …}`. A call that is still unanswered counts with its age.
 */
import { Agent, request } from "node:http";
import { connect } from "node:http2";

const { AGONES_SDK_HTTP_PORT: port, AGONES_SDK_GRPC_PORT: grpcPort } = process.env;
const REST_MS = 10;
/** The first calls are slow for node's own reasons. */
const WARM_UP = 50;
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
const session = connect(`http://127.0.0.1:${grpcPort}`);

function rest(method, path, body = "") {
  return new Promise((done, failed) => {
    const headers = { "content-length": Buffer.byteLength(body) };
    const sent = request({ host: "127.0.0.1", port, method, path, agent, headers }, (response) => {
      response.resume();
      response.on("end", () => (response.statusCode === 200 ? done() : failed(new Error(`${path}: ${response.statusCode}`))));
    });
    sent.on("error", failed).end(body);
  });
}

function grpc() {
  return new Promise((done, failed) => {
    const stream = session.request({
      ":method": "POST",
      ":path": "/agones.dev.sdk.SDK/GetGameServer",
      "content-type": "application/grpc",
      te: "trailers",
    });
    stream.on("trailers", (it) => (it["grpc-status"] === "0" ? done() : failed(new Error(it["grpc-message"]))));
    stream.on("error", failed).resume();
    stream.end(Buffer.alloc(5));
  });
}

const kinds = { rest: () => rest("GET", "/gameserver"), grpc };
const report = { rest: { count: 0, worst_ms: 0 }, grpc: { count: 0, worst_ms: 0 } };
let waits;
const note = () => {
  if (waits) report[waits.kind].worst_ms = Math.max(report[waits.kind].worst_ms, performance.now() - waits.since);
};

for (let index = 0; index < WARM_UP; index++) for (const call of Object.values(kinds)) await call();
await rest("POST", "/ready", "{}");
setInterval(() => rest("POST", "/health", "{}"), 500);
setInterval(() => {
  note();
  console.log(JSON.stringify(report));
}, 500);
for (;;) {
  for (const [kind, call] of Object.entries(kinds)) {
    waits = { kind, since: performance.now() };
    await call();
    note();
    waits = undefined;
    report[kind].count++;
    await new Promise((done) => setTimeout(done, REST_MS));
  }
}
