/**
 * A game server that floods the Agones SDK, in one of the ways below, for as long as it lives. Started by `throng host`
 * from ../host.test.mjs, which ends it. In: the number of the way, from 1 on.
 */
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";

const { AGONES_SDK_HTTP_PORT: restPort, AGONES_SDK_GRPC_PORT: grpcPort } = process.env;
const AT_ONCE = 64;

/** Connects again and again, so many at one time; `talk` is told of each. */
function connections(port, talk, count = AT_ONCE) {
  const begin = () => {
    const socket = connect({ host: "127.0.0.1", port: Number(port) });
    socket.on("error", () => {});
    socket.on("connect", () => talk(socket));
    socket.on("close", () => setImmediate(begin));
  };
  for (let index = 0; index < count; index++) begin();
}

/** Writes as much as the other side takes; what it answers is read. */
function pour(socket, bytes) {
  socket.resume();
  const more = () => {
    while (!socket.destroyed && socket.write(bytes()));
  };
  socket.on("drain", more);
  more();
}

const request = (method, path, body = "{}") =>
  `${method} ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

/** Sessions of HTTP/2, so many at one time; `talk` is told of each, and a new one follows its end. */
function sessions(talk, count = AT_ONCE) {
  const begin = () => {
    const session = connectHttp2(`http://127.0.0.1:${grpcPort}`);
    session.on("error", () => {});
    session.on("connect", () => talk(session));
    session.on("close", () => setImmediate(begin));
  };
  for (let index = 0; index < count; index++) begin();
}

function call(session, name, options) {
  const headers = { ":method": "POST", ":path": `/agones.dev.sdk.${name}`, "content-type": "application/grpc", te: "trailers" };
  const stream = session.request(headers, options);
  stream.on("error", () => {});
  return stream;
}

/** Calls one after the other on many streams at once. */
function calls(session, name, message) {
  const next = () => {
    if (session.destroyed || session.closed) return;
    const stream = call(session, name);
    stream.resume().on("close", () => setImmediate(next));
    stream.end(message);
  };
  for (let index = 0; index < 100; index++) next();
}

const EMPTY = Buffer.alloc(5);
let number = 0;

const WAYS = [
  // Calls that change its state, pipelined.
  () => connections(restPort, (socket) => pour(socket, () => request("POST", "/allocate").repeat(100))),
  // Annotations as large and as many as there may be, and watches of them that nobody reads.
  () => {
    const value = "x".repeat(4_000);
    const body = () => JSON.stringify({ key: `k${number++ % 100}`, value });
    connections(restPort, (socket) => socket.write(request("GET", "/watch/gameserver", "")), 8);
    connections(restPort, (socket) => pour(socket, () => request("PUT", "/metadata/annotation", body())));
  },
  // Bodies without end.
  () => {
    const piece = Buffer.concat([Buffer.from("10000\r\n"), Buffer.alloc(0x10000, "x"), Buffer.from("\r\n")]);
    connections(restPort, (socket) => {
      socket.write("POST /ready HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
      pour(socket, () => piece);
    });
  },
  // Connections that come and go, on both ports.
  () => [restPort, grpcPort].forEach((port) => connections(port, (socket) => socket.destroy())),
  // Calls on as many streams as there may be.
  () => sessions((session) => calls(session, "SDK/GetGameServer", EMPTY)),
  // Signs of health without a pause, and watches on all other streams.
  () =>
    sessions((session) => {
      const health = call(session, "SDK/Health");
      pour(health, () => Buffer.alloc(5 * 1_000));
      for (let index = 0; index < 100; index++) call(session, "SDK/WatchGameServer").end(EMPTY);
    }),
  // Calls that are taken back at once (CVE-2023-44487).
  () =>
    sessions((session) => {
      const timer = setInterval(() => {
        if (session.destroyed || session.closed) return clearInterval(timer);
        for (let index = 0; index < 100; index++) call(session, "SDK/GetGameServer", { endStream: true }).close(8);
      }, 1);
    }),
  // Pings, and messages that are announced as huge.
  () =>
    sessions((session) => {
      const timer = setInterval(() => {
        if (session.destroyed || session.closed) return clearInterval(timer);
        for (let index = 0; index < 100; index++) session.ping(() => {});
      }, 1);
      const message = Buffer.concat([Buffer.from([0, 0x7f, 0xff, 0xff, 0xff]), Buffer.alloc(60_000)]);
      calls(session, "beta.SDK/AddListValue", message);
    }),
];

process.on("uncaughtException", () => {});
const way = WAYS[Number(process.argv[2]) - 1];
console.log(`floods in way ${process.argv[2]} of ${WAYS.length}`);
way();
