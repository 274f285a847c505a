/**
 * A well-behaved player: does a few things in turns, one at a time with a short rest, and notes how long each
 * answer took. Started by rig.mjs as a process of its own, so that the attackers' work is not charged to it.
 *
 * In: one argument, JSON `{host, port, grpcPort, serverKey, kinds}`. Out: a line `ready`, and when the standard input ends
 * a line of JSON `{kind: [[began, waited], …]}`: milliseconds, the first of the monotonic clock that all processes of
 * a machine share. What is still unanswered then counts with its age. What the waits are worth is rig.mjs's to say.
 */
import { Agent, request } from "node:http";
import { connect } from "node:http2";
import { clientOf, RawSocket, unique } from "../client.mjs";
import { framed, rpcMessage } from "./grpc.mjs";

const { host, port, grpcPort, serverKey, kinds } = JSON.parse(process.argv[2]);
const REST_MS = 5;
const server = { host, port, serverKey };
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
const device = unique("neighbour");

/** One request over the neighbour's one kept-alive connection; gives its body. Anything but 200 is an error. */
function call(method, path, authorization, body) {
  return new Promise((done, failed) => {
    const headers = { authorization, "content-length": Buffer.byteLength(body ?? "") };
    const sent = request({ host, port, method, path, agent, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk) => (text += chunk));
      response.on("end", () =>
        response.statusCode === 200
          ? done(text)
          : failed(new Error(`${method} ${path}: ${response.statusCode} ${text}`)),
      );
    });
    sent.on("error", failed).end(body);
  });
}

const key = `Basic ${btoa(`${serverKey}:`)}`;
const logIn = (id) =>
  call("POST", "/v2/account/authenticate/device?create=true", key, JSON.stringify({ id }));

const session = await clientOf(server).authenticateDevice(device, true);
const bearer = `Bearer ${session.token}`;
const socket = await RawSocket.open(server, session.token);

const grpc = kinds.includes("grpc") ? connect(`http://${host}:${grpcPort}`) : undefined;

/** An RPC over gRPC, on the neighbour's one connection. */
function grpcCall() {
  return new Promise((done, failed) => {
    const stream = grpc.request({
      ":method": "POST",
      ":path": "/nakama.api.Nakama/RpcFunc",
      "content-type": "application/grpc",
      te: "trailers",
      authorization: bearer,
    });
    stream.on("trailers", (trailers) =>
      trailers["grpc-status"] === "0" ? done() : failed(new Error(trailers["grpc-message"])),
    );
    stream.on("response", (headers) => {
      if (headers["grpc-status"]) failed(new Error(headers["grpc-message"]));
    });
    stream.on("error", failed).resume().end(framed(rpcMessage("e2e_echo", "x")));
  });
}

const wait = () => call("POST", "/v2/rpc/e2e_count_nobody", bearer, '""');

/**
 * A call that waits in a VM whose memory others use up is ended, and says so (docs/roadmap.md): how long that took counts as an
 * answer does.
 */
function endedByOthers(error) {
  if (!error.message.includes("memory was used up by another call while this one waited")) throw error;
}

const DO = {
  grpc: grpcCall,
  rpc: () => call("POST", "/v2/rpc/e2e_echo", bearer, '"x"'),
  read: () => call("POST", "/v2/rpc/e2e_read_nothing", bearer, '""'),
  wait,
  wait_or_end: () => wait().catch(endedByOthers),
  authenticate: () => logIn(device),
  register: () => logIn(unique("newcomer")),
  list: () => call("GET", "/v2/match?limit=10", bearer),
  socket: () => socket.request({ rpc: { id: "e2e_echo", payload: "x" } }, 60_000),
};

const now = () => Number(process.hrtime.bigint()) / 1e6;
const waits = Object.fromEntries(kinds.map((kind) => [kind, []]));
let pending;
let stopped = false;
process.stdin.resume().once("end", () => {
  stopped = true;
  // An answer that has not come is the longest wait of all, once it has been given the time to come.
  setTimeout(finish, 1_000).unref();
});

/** The answer that was waited for is there, or nobody waits for it any longer. */
function note() {
  waits[pending.kind].push([pending.began, now() - pending.began]);
  pending = undefined;
}

function finish() {
  if (pending) note();
  process.stdout.write(`${JSON.stringify(waits)}\n`, () => process.exit(0));
}

// Connections are made and code is compiled before anything counts.
for (const kind of kinds) await DO[kind]();
console.log("ready");
while (!stopped) {
  for (const kind of kinds) {
    pending = { kind, began: now() };
    await DO[kind]();
    note();
    if (stopped) break;
  }
  await new Promise((rested) => setTimeout(rested, REST_MS));
}
finish();
