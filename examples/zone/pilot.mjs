/**
 * A pilot of the zone for node: flies in a circle and says once a second what it sees, over the socket or, with
 * `--datagrams`, with what may be lost by datagram.
 *
 *     throng serve --world.enabled true --world.bots 200 --datagram.enabled true
 *     node examples/zone/pilot.mjs 127.0.0.1:7350 10 --datagrams
 *
 * Arguments: where the server is, for how many seconds to fly. Node 20 lacks a WebSocket: `npm install ws` beside it, or
 * a later node.
 */
import { Datagrams } from "../datagrams/datagrams.mjs";
import { Player } from "./client.mjs";
import { CONTROLS, NEWS, news, plain, SCORE, score, SNAPSHOT, View, WELCOME, welcome } from "./zone.mjs";

const words = process.argv.slice(2).filter((word) => !word.startsWith("--"));
const [server = "127.0.0.1:7350", seconds = "10"] = words;
globalThis.WebSocket ??= (await import("ws")).WebSocket;

const player = await Player.logIn(server);
const [id] = await player.listMatches("+label.kind:zone");
if (!id) throw new Error("the server has no zone: start it with --world.enabled true");
const view = new View();
const told = { datagrams: 0, socket: 0 };
let ship;
let seq = 0;

/** Takes what came, and answers with what it acknowledges and wants. */
function take(way, { op_code, data }) {
  if (op_code === WELCOME) ship = welcome(data);
  if (op_code === SCORE) console.log(score(data));
  if (op_code === NEWS) {
    for (const { victim, by, text } of news(data)) console.log(`${victim.name || "a bot"} was shot down by ${by.name || "a bot"} ${text}`);
  }
  if (op_code !== SNAPSHOT) return;
  view.take(data);
  told[way] += 1;
  seq += 1;
  const packet = view.controls(seq, [{ turn: 6, thrust: 2, fire: seq % 16 === 0 }]);
  (datagrams?.isOpen ? datagrams : player).sendMatchState(id, CONTROLS, packet);
}

player.onmatchdata = (message) => take("socket", message);
await player.open();
let datagrams;
if (process.argv.includes("--datagrams")) {
  const onMatchData = (message) => take("datagrams", message);
  datagrams = await Datagrams.open(player, { host: server.slice(0, server.lastIndexOf(":")), onMatchData });
}
await player.joinMatch(id);

const timer = setInterval(() => {
  const own = ship && view.at(ship.slot);
  const { x, y } = own ? plain(own) : {};
  const place = own ? `at ${x.toFixed(1)} m east, ${y.toFixed(1)} m north` : "not there yet";
  const ways = `${told.datagrams} snapshots by datagram, ${told.socket} over the socket`;
  console.log(`tick ${view.tick}: ${place}; ${view.known.size} ships in sight; ${ways}`);
}, 1_000);
setTimeout(async () => {
  clearInterval(timer);
  await player.leaveMatch(id);
  datagrams?.close();
  player.close();
}, Number(seconds) * 1_000);
