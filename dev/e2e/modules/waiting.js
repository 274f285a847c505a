// In JavaScript the matches of waiting_match.lua and lateness_match.lua, and the functions that waiting.test.mjs calls,
// for servers that are told so (runtime.js_entrypoint): waiting.test.mjs and attack/lateness.test.mjs play both.

var TICK_RATE_HZ = 20;

function act(nk, wish) {
  try {
    if (wish.signal) return nk.matchSignal(wish.signal, JSON.stringify(wish.data || { say: 'hello' }));
    if (wish.create) return nk.matchCreate('waiting_match_js', {});
    return nk.httpRequest(wish.ask, 'get', {}, null, wish.timeout_ms).body;
  } catch (error) {
    return error.message;
  }
}

// Does what was told for a callback, once.
function callback(name, nk, state, dispatcher) {
  var wish = state.wishes[name];
  if (!wish) return;
  delete state.wishes[name];
  state.seen = act(nk, wish);
  if (dispatcher) dispatcher.broadcastMessage(1, state.seen);
}

function waitingInit(ctx, logger, nk, wishes) {
  var state = { wishes: wishes, seen: '' };
  callback('init', nk, state, null);
  return { state: state, tickRate: 10, label: '' };
}

function waitingJoinAttempt(ctx, logger, nk, dispatcher, tick, state) {
  callback('join_attempt', nk, state, dispatcher);
  return { state: state, accept: true };
}

function waitingJoin(ctx, logger, nk, dispatcher, tick, state) {
  callback('join', nk, state, dispatcher);
  return { state: state };
}

function waitingLeave(ctx, logger, nk, dispatcher, tick, state) {
  callback('leave', nk, state, dispatcher);
  return { state: state };
}

function waitingLoop(ctx, logger, nk, dispatcher, tick, state) {
  callback('loop', nk, state, dispatcher);
  return { state: state };
}

function waitingSignal(ctx, logger, nk, dispatcher, tick, state, data) {
  var told = JSON.parse(data);
  if (told.seen) return { state: state, data: state.seen };
  if (told.say) return { state: state, data: 'says ' + told.say };
  if (told.act) return { state: state, data: act(nk, told.act) };
  state.wishes = told;
  return { state: state, data: '' };
}

function waitingTerminate(ctx, logger, nk, dispatcher, tick, state) {
  callback('terminate', nk, state, dispatcher);
  logger.info('terminated after: ' + state.seen);
  return { state: state };
}

function latenessInit() {
  return { state: { mode: 'quiet', written: 0 }, tickRate: TICK_RATE_HZ, label: '' };
}

function latenessJoinAttempt(ctx, logger, nk, dispatcher, tick, state) {
  return { state: state, accept: true };
}

function goOn(ctx, logger, nk, dispatcher, tick, state) {
  return { state: state };
}

function latenessLoop(ctx, logger, nk, dispatcher, tick, state) {
  dispatcher.broadcastMessage(1, String(tick));
  if (state.mode === 'waits') {
    nk.storageWrite([{ collection: 'lateness', key: ctx.matchId, value: { at: Date.now() } }]);
    state.written += 1;
  }
  return { state: state };
}

// The next mode; the answer is how much was written in the one before.
function latenessSignal(ctx, logger, nk, dispatcher, tick, state, mode) {
  var written = String(state.written);
  state.mode = mode;
  state.written = 0;
  return { state: state, data: written };
}

function rpcEcho(ctx, logger, nk, payload) {
  return payload;
}

function rpcHttp(ctx, logger, nk, payload) {
  var asked = JSON.parse(payload);
  var answer = nk.httpRequest(asked.url, 'get', {}, null, asked.timeout_ms);
  return JSON.stringify({ code: answer.code, content: answer.body });
}

function rpcCreate(ctx, logger, nk, payload) {
  var wishes = JSON.parse(payload);
  return JSON.stringify({ match_id: nk.matchCreate(wishes.module, wishes) });
}

function rpcSignal(ctx, logger, nk, payload) {
  var wish = JSON.parse(payload);
  return JSON.stringify({ answer: nk.matchSignal(wish.match_id, JSON.stringify(wish.data)) });
}

function InitModule(ctx, logger, nk, initializer) {
  initializer.registerRpc('e2e_echo_js', rpcEcho);
  initializer.registerRpc('e2e_http_js', rpcHttp);
  initializer.registerRpc('waiting_create_js', rpcCreate);
  initializer.registerRpc('waiting_signal_js', rpcSignal);
  initializer.registerMatch('waiting_match_js', {
    matchInit: waitingInit,
    matchJoinAttempt: waitingJoinAttempt,
    matchJoin: waitingJoin,
    matchLeave: waitingLeave,
    matchLoop: waitingLoop,
    matchTerminate: waitingTerminate,
    matchSignal: waitingSignal,
  });
  initializer.registerMatch('lateness_match_js', {
    matchInit: latenessInit,
    matchJoinAttempt: latenessJoinAttempt,
    matchJoin: goOn,
    matchLeave: goOn,
    matchLoop: latenessLoop,
    matchTerminate: goOn,
    matchSignal: latenessSignal,
  });
}
