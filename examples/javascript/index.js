// A game in JavaScript for throng: RPC functions, storage, a hook before a call, and a match of up to ten players. The
// same game is written in Lua, Go and Rust beside this folder.
//
//   cp examples/javascript/index.js data/modules/
//
// Functions stand at the top level, so that they are found by their names wherever they run: every thread has a machine
// of its own, and so has every match. The types in the comments are Nakama's (`npm install
// github:heroiclabs/nakama-common`, then `"types": ["nakama-runtime"]` and `"checkJs": true` in tsconfig.json): editors
// check the file by them, and it needs no build.
//
// A client's way into a match: call the RPC "arena_find", join {"match_id": "…"} over the socket, listen for WELCOME,
// and send TO_SENDER or TO_ALL, which come back to oneself or to everybody.

// Operation codes: what a message means. The numbers are the game's own choice.
const TO_SENDER = 1;
const TO_ALL = 2;
const WELCOME = 50;

const TICK_RATE_HZ = 10;
const PLAYERS_MAX = 10;
// A match that nobody is in ends after a minute.
const EMPTY_TICKS_MAX = 60 * TICK_RATE_HZ;
const NAME_LETTERS_MAX = 20;

// gRPC codes, which clients of all languages know.
const INVALID_ARGUMENT = 3;
const FAILED_PRECONDITION = 9;

/**
 * Answers what the client sent, decoded and encoded again, with who sent it.
 * @type {nkruntime.RpcFunction}
 */
function echo(ctx, logger, nk, payload) {
  let input;
  try {
    input = JSON.parse(payload);
  } catch {
    throw { message: 'the payload is not JSON', code: INVALID_ARGUMENT };
  }
  return JSON.stringify({ echo: input, user: ctx.userId });
}

/**
 * Writes what the client sent to storage, and reads it again.
 * @type {nkruntime.RpcFunction}
 */
function store(ctx, logger, nk, payload) {
  const id = { collection: 'arena', key: 'k', userId: ctx.userId };
  const [written] = nk.storageWrite([{ ...id, value: JSON.parse(payload), permissionRead: 1 }]);
  const [read] = nk.storageRead([id]);
  return JSON.stringify({ same: written.version === read.version, value: read.value });
}

/** @type {nkruntime.RpcFunction} */
function fail(ctx, logger, nk, payload) {
  throw { message: 'not today', code: FAILED_PRECONDITION };
}

/**
 * Never ends: the server stops it.
 * @type {nkruntime.RpcFunction}
 */
function spin(ctx, logger, nk, payload) {
  for (;;) {}
}

// The side of a maze of SIDE × SIDE cells. In every other row there is a wall with one gap, at its right or left end in
// turns, so that the only way from the first corner to the goal leads through every cell.
const SIDE = 63;

function isWall(x, y) {
  const gap = y % 4 === 1 ? SIDE - 1 : 0;
  return y % 2 === 1 && x !== gap;
}

const NEIGHBOURS = [[1, 0], [0, 1], [-1, 0], [0, -1]];

/**
 * Finds the way through the maze, breadth first: what costs time in many games.
 * @type {nkruntime.RpcFunction}
 */
function path(ctx, logger, nk, payload) {
  const goal = SIDE * (SIDE - 1);
  const steps = new Int32Array(SIDE * SIDE).fill(-1);
  const queue = [0];
  steps[0] = 0;
  let head = 0;
  while (queue[head] !== goal) {
    if (head === queue.length) {
      throw { message: 'there is no way', code: FAILED_PRECONDITION };
    }
    const cell = queue[head++];
    const x = cell % SIDE;
    const y = Math.floor(cell / SIDE);
    for (const by of NEIGHBOURS) {
      const toX = x + by[0];
      const toY = y + by[1];
      const to = toY * SIDE + toX;
      const isInside = toX >= 0 && toX < SIDE && toY >= 0 && toY < SIDE;
      if (isInside && steps[to] < 0 && !isWall(toX, toY)) {
        steps[to] = steps[cell] + 1;
        queue.push(to);
      }
    }
  }
  return JSON.stringify({ seen: queue.length, steps: steps[goal] });
}

/**
 * A new match; {"match_id": "…"}.
 * @type {nkruntime.RpcFunction}
 */
function newArena(ctx, logger, nk, payload) {
  return JSON.stringify({ match_id: nk.matchCreate('arena', { level: 3 }) });
}

/**
 * A match with a free seat, or a new one. Two players may be told of the same seat: the second one is refused when
 * joining, and asks again.
 * @type {nkruntime.RpcFunction}
 */
function findArena(ctx, logger, nk, payload) {
  const [found] = nk.matchList(1, true, null, null, PLAYERS_MAX - 1, '+label.game:arena');
  return found ? JSON.stringify({ match_id: found.matchId }) : newArena(ctx, logger, nk, payload);
}

/**
 * Refuses long names, and writes the others in capitals.
 * @type {nkruntime.BeforeHookFunction<nkruntime.UserUpdateAccount>}
 */
function shortNames(ctx, logger, nk, request) {
  const name = request.displayName ?? '';
  if ([...name].length > NAME_LETTERS_MAX) {
    throw { message: 'name too long', code: INVALID_ARGUMENT };
  }
  request.displayName = name.toUpperCase();
  return request;
}

/**
 * Called once: the first state, ticks a second, and the label that others find the match by.
 * @type {nkruntime.MatchInitFunction}
 */
function matchInit(ctx, logger, nk, params) {
  const state = { level: params.level, present: 0, emptyTicks: 0 };
  return { state, tickRate: TICK_RATE_HZ, label: '{"game":"arena"}' };
}

/** @type {nkruntime.MatchJoinAttemptFunction} */
function matchJoinAttempt(ctx, logger, nk, dispatcher, tick, state, presence, metadata) {
  if (metadata.ticket === 'forged') {
    return { state, accept: false, rejectMessage: 'forged ticket' };
  }
  return { state, accept: state.present < PLAYERS_MAX, rejectMessage: 'match full' };
}

/** @type {nkruntime.MatchJoinFunction} */
function matchJoin(ctx, logger, nk, dispatcher, tick, state, presences) {
  state.present += presences.length;
  const welcome = { joined: presences.length, level: state.level };
  dispatcher.broadcastMessage(WELCOME, JSON.stringify(welcome));
  return { state };
}

/** @type {nkruntime.MatchLeaveFunction} */
function matchLeave(ctx, logger, nk, dispatcher, tick, state, presences) {
  state.present -= presences.length;
  return { state };
}

/**
 * Called at every tick, with the messages that came since the last one; null ends the match.
 * @type {nkruntime.MatchLoopFunction}
 */
function matchLoop(ctx, logger, nk, dispatcher, tick, state, messages) {
  for (const { opCode, data, sender } of messages) {
    if (opCode === TO_SENDER) {
      dispatcher.broadcastMessage(TO_SENDER, data, [sender], sender);
    } else if (opCode === TO_ALL) {
      dispatcher.broadcastMessage(TO_ALL, data, null, sender);
    } else {
      spin(ctx, logger, nk, '');
    }
  }
  state.emptyTicks = state.present === 0 ? state.emptyTicks + 1 : 0;
  return state.emptyTicks < EMPTY_TICKS_MAX ? { state } : null;
}

/** @type {nkruntime.MatchTerminateFunction} */
function matchTerminate(ctx, logger, nk, dispatcher, tick, state, graceSeconds) {
  return { state };
}

/** @type {nkruntime.MatchSignalFunction} */
function matchSignal(ctx, logger, nk, dispatcher, tick, state, data) {
  return { state, data: `heard ${data}` };
}

/** @type {nkruntime.InitModule} */
function InitModule(ctx, logger, nk, initializer) {
  initializer.registerRpc('echo', echo);
  initializer.registerRpc('store', store);
  initializer.registerRpc('fail', fail);
  initializer.registerRpc('spin', spin);
  initializer.registerRpc('path', path);
  initializer.registerRpc('arena', newArena);
  initializer.registerRpc('arena_find', findArena);
  initializer.registerBeforeUpdateAccount(shortNames);
  initializer.registerMatch('arena', {
    matchInit,
    matchJoinAttempt,
    matchJoin,
    matchLeave,
    matchLoop,
    matchTerminate,
    matchSignal,
  });
}
