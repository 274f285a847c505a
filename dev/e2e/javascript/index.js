// The bundle of javascript.test.mjs, in the form that TypeScript and rollup give Nakama's projects: functions at
// the top level, ES5.

var MODES = { BYTES: 1, ECHO: 2, LOOP: 3, LOSABLE: 13 };

function rpcEcho(ctx, logger, nk, payload) {
  return JSON.stringify({ user: ctx.userId, echo: JSON.parse(payload) });
}

function rpcStore(ctx, logger, nk, payload) {
  var acks = nk.storageWrite([
    { collection: 'js', key: 'k', userId: ctx.userId, value: JSON.parse(payload), permissionRead: 1 },
  ]);
  var read = nk.storageRead([{ collection: 'js', key: 'k', userId: ctx.userId }]);
  return JSON.stringify({ same: acks[0].version === read[0].version, value: read[0].value });
}

function rpcFail(ctx, logger, nk, payload) {
  throw { message: 'not today', code: 9 };
}

function rpcLoop(ctx, logger, nk, payload) {
  for (;;) {}
}

function rpcArena(ctx, logger, nk, payload) {
  return JSON.stringify({ match_id: nk.matchCreate('arena', { level: 3 }) });
}

function beforeAccount(ctx, logger, nk, request) {
  if (request.displayName.length > 20) {
    throw { message: 'name too long', code: 3 };
  }
  request.displayName = request.displayName.toUpperCase();
  return request;
}

function matchInit(ctx, logger, nk, params) {
  return { state: { level: params.level, present: {}, ticks: 0 }, tickRate: 20, label: '{"game":"arena"}' };
}

function matchJoinAttempt(ctx, logger, nk, dispatcher, tick, state, presence, metadata) {
  return { state: state, accept: metadata.ticket !== 'forged', rejectMessage: 'forged ticket' };
}

function matchJoin(ctx, logger, nk, dispatcher, tick, state, presences) {
  presences.forEach(function (presence) {
    state.present[presence.userId] = presence;
  });
  dispatcher.broadcastMessage(50, JSON.stringify({ joined: presences.length, level: state.level }));
  return { state: state };
}

function matchLeave(ctx, logger, nk, dispatcher, tick, state, presences) {
  presences.forEach(function (presence) {
    delete state.present[presence.userId];
  });
  return Object.keys(state.present).length === 0 ? null : { state: state };
}

function matchLoop(ctx, logger, nk, dispatcher, tick, state, messages) {
  messages.forEach(function (message) {
    if (message.opCode === MODES.ECHO) {
      dispatcher.broadcastMessage(message.opCode, nk.binaryToString(message.data), null, message.sender);
    } else if (message.opCode === MODES.LOSABLE) {
      dispatcher.broadcastMessage(message.opCode, nk.binaryToString(message.data), null, message.sender, false);
    } else if (message.opCode === MODES.BYTES) {
      dispatcher.broadcastMessage(message.opCode, message.data, [message.sender]);
    } else {
      for (;;) {}
    }
  });
  return { state: state };
}

function matchTerminate(ctx, logger, nk, dispatcher, tick, state, graceSeconds) {
  return { state: state };
}

function matchSignal(ctx, logger, nk, dispatcher, tick, state, data) {
  return { state: state, data: 'heard ' + data };
}

function InitModule(ctx, logger, nk, initializer) {
  initializer.registerRpc('js_echo', rpcEcho);
  initializer.registerRpc('js_store', rpcStore);
  initializer.registerRpc('js_fail', rpcFail);
  initializer.registerRpc('js_loop', rpcLoop);
  initializer.registerRpc('js_arena', rpcArena);
  initializer.registerBeforeUpdateAccount(beforeAccount);
  initializer.registerMatch('arena', {
    matchInit: matchInit,
    matchJoinAttempt: matchJoinAttempt,
    matchJoin: matchJoin,
    matchLeave: matchLeave,
    matchLoop: matchLoop,
    matchTerminate: matchTerminate,
    matchSignal: matchSignal,
  });
}

// Reference InitModule, so that a bundler does not leave it out.
!InitModule && InitModule.bind(null);
