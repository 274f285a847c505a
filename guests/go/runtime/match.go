//go:build wasip1

package runtime

import (
	"bytes"
	"errors"
	"runtime/debug"

	"throng/guest/wire"
)

// matchGCPercent makes Go collect a match's heap when it has grown by a quarter, and from 1 MiB on, not by as much again
// and from 4 MiB: there are many matches, each with an instance of its own, and what a heap has taken once stays taken.
const matchGCPercent = 25

type presence struct {
	userID, sessionID, username string
	reason                      PresenceReason
}

func (p presence) GetUserId() string         { return p.userID }
func (p presence) GetSessionId() string      { return p.sessionID }
func (p presence) GetUsername() string       { return p.username }
func (p presence) GetNodeId() string         { return text(about[RUNTIME_CTX_NODE]) }
func (p presence) GetReason() PresenceReason { return p.reason }
func (p presence) GetHidden() bool           { return false }
func (p presence) GetPersistence() bool      { return false }
func (p presence) GetStatus() string         { return "" }

type matchData struct {
	presence
	opCode   int64
	data     []byte
	reliable bool
	timeMs   int64
}

func (m matchData) GetOpCode() int64      { return m.opCode }
func (m matchData) GetData() []byte       { return m.data }
func (m matchData) GetReliable() bool     { return m.reliable }
func (m matchData) GetReceiveTime() int64 { return m.timeMs }

type dispatcher struct{}

// send appends what it is given where the server reads it: a match sends much.
func (dispatcher) send(name string, opCode int64, data []byte, to []Presence, sender Presence, reliable bool) error {
	call := wire.AppendBytes(wire.AppendInt(wire.Begin(name, 5), opCode), data)
	if to == nil {
		call = wire.AppendNil(call)
	} else {
		call = wire.AppendList(call, len(to))
		for _, presence := range to {
			call = wire.AppendText(call, presence.GetSessionId())
		}
	}
	if sender == nil {
		call = wire.AppendNil(call)
	} else {
		call = wire.AppendText(wire.AppendList(call, 3), sender.GetUserId())
		call = wire.AppendText(wire.AppendText(call, sender.GetSessionId()), sender.GetUsername())
	}
	return wire.End(wire.AppendBool(call, reliable))
}

func (d dispatcher) BroadcastMessage(opCode int64, data []byte, presences []Presence, sender Presence, reliable bool) error {
	return d.send("broadcast_message", opCode, data, presences, sender, reliable)
}

func (d dispatcher) BroadcastMessageDeferred(opCode int64, data []byte, presences []Presence, sender Presence, reliable bool) error {
	return d.send("broadcast_message_deferred", opCode, data, presences, sender, reliable)
}

func (dispatcher) MatchKick(presences []Presence) error {
	_, err := wire.Call("match_kick", sessionsOf(presences))
	return err
}

func (dispatcher) MatchLabelUpdate(label string) error {
	_, err := wire.Call("match_label_update", label)
	return err
}

func sessionsOf(presences []Presence) []any {
	sessions := make([]any, len(presences))
	for index, presence := range presences {
		sessions[index] = presence.GetSessionId()
	}
	return sessions
}

func presenceOf(parts []any) presence {
	if len(parts) < 3 {
		return presence{}
	}
	who := presence{userID: text(parts[0]), sessionID: text(parts[1]), username: text(parts[2])}
	if len(parts) == 4 {
		who.reason = PresenceReason(whole(parts[3]))
	}
	return who
}

func presencesOf(value any) []Presence {
	items, _ := value.([]any)
	presences := make([]Presence, len(items))
	for index, item := range items {
		parts, _ := item.([]any)
		presences[index] = presenceOf(parts)
	}
	return presences
}

// sendersKept is how many senders of messages are known: those that came last.
const sendersKept = 32

// senders are who sent messages, and nextSender is the place of the next one who is not among them.
var (
	senders    [sendersKept]presence
	nextSender int
)

// senderOf is who has sent a message: the same texts as last time, so that they are no garbage each time.
func senderOf(userID, sessionID, username []byte) presence {
	for index := range senders {
		known := &senders[index]
		if known.sessionID == string(sessionID) && known.userID == string(userID) && known.username == string(username) {
			return *known
		}
	}
	sender := presence{userID: string(userID), sessionID: string(sessionID), username: string(username)}
	senders[nextSender] = sender
	nextSender = (nextSender + 1) % sendersKept
	return sender
}

// readMessages reads the messages of a tick, each where it stays.
func readMessages(call *wire.Reader) ([]MatchData, error) {
	count, err := call.List()
	if err != nil || count == 0 {
		return []MatchData{}, err
	}
	all, messages := make([]matchData, count), make([]MatchData, count)
	for index := range all {
		if err := all[index].read(call); err != nil {
			return nil, err
		}
		messages[index] = &all[index]
	}
	return messages, nil
}

func (m *matchData) read(call *wire.Reader) error {
	count, err := call.List()
	if err != nil || count < 7 {
		return errNoCall
	}
	userID, errUser := call.Bytes()
	sessionID, errSession := call.Bytes()
	username, errName := call.Bytes()
	opCode, errCode := call.Int()
	data, errData := call.Bytes()
	reliable, errReliable := call.Bool()
	timeMs, errTime := call.Int()
	// What later versions of the convention have behind these.
	for ; count > 7; count-- {
		if _, err := call.Skip(); err != nil {
			return errNoCall
		}
	}
	m.presence = senderOf(userID, sessionID, username)
	m.opCode, m.data, m.reliable, m.timeMs = opCode, append([]byte{}, data...), reliable, timeMs
	return errors.Join(errUser, errSession, errName, errCode, errData, errReliable, errTime)
}

// loopContext is the context of the last tick, and loopValues the values that it has: a match's seldom change.
var (
	loopContext *callContext
	loopValues  []byte
)

// serveLoop runs a tick. There are many, and what each of them takes the match's heap grows by until it is collected:
// one without messages takes nothing.
func serveLoop(values []byte, call *wire.Reader, to []byte) ([]byte, error) {
	tick, err := call.Int()
	if err != nil {
		return nil, errNoCall
	}
	messages, err := readMessages(call)
	if err != nil {
		return nil, errNoCall
	}
	if running == nil {
		return nil, errNoMatch
	}
	if loopContext == nil || !bytes.Equal(values, loopValues) {
		loopContext = newContext(values)
		loopValues = loopContext.bytes
	}
	state = running.MatchLoop(loopContext, log, nil, nk, dispatcher{}, tick, state, messages)
	return wire.Append(to, state != nil)
}

var errNoMatch = errors.New("no match runs here")

// callMatch runs a callback of the match of this instance.
func callMatch(ctx *callContext, kind, name string, arguments []any) (any, error) {
	if len(arguments) < 2 {
		return nil, errors.New("a callback without its arguments")
	}
	tick, _ := arguments[0].(int64)
	first, d := arguments[1], dispatcher{}
	if kind == "match_init" {
		debug.SetGCPercent(matchGCPercent)
		open := matches.get(name)
		if open == nil {
			return nil, errorf("the match %s is not registered", name)
		}
		var err error
		if running, err = open(ctx, log, nil, nk); err != nil {
			return nil, err
		}
		if running == nil {
			return nil, errorf("what RegisterMatch was given for %s has returned no match, and no error", name)
		}
		params, _ := first.(map[string]any)
		rate, label := 0, ""
		state, rate, label = running.MatchInit(ctx, log, nil, nk, params)
		if state == nil {
			return nil, errorf("MatchInit of %s has returned no state", name)
		}
		return []any{rate, label}, nil
	}
	if running == nil {
		return nil, errNoMatch
	}
	switch kind {
	case "match_join_attempt":
		parts, _ := first.([]any)
		if len(parts) == 7 && len(arguments) == 3 {
			own := ctx.all()
			own[RUNTIME_CTX_USER_ID], own[RUNTIME_CTX_SESSION_ID] = parts[0], parts[1]
			own[RUNTIME_CTX_USERNAME], own[RUNTIME_CTX_VARS] = parts[2], texts(parts[3])
			own[RUNTIME_CTX_USER_SESSION_EXP] = parts[4]
			own[RUNTIME_CTX_CLIENT_IP], own[RUNTIME_CTX_CLIENT_PORT] = parts[5], parts[6]
			allow, reason := false, ""
			state, allow, reason = running.MatchJoinAttempt(ctx, log, nil, nk, d, tick, state, presenceOf(parts), texts(arguments[2]))
			if state == nil {
				return nil, nil
			}
			return []any{allow, reason}, nil
		}
		return nil, errors.New("a join without its presence")
	case "match_join":
		state = running.MatchJoin(ctx, log, nil, nk, d, tick, state, presencesOf(first))
	case "match_leave":
		state = running.MatchLeave(ctx, log, nil, nk, d, tick, state, presencesOf(first))
	case "match_terminate":
		grace, _ := first.(int64)
		state = running.MatchTerminate(ctx, log, nil, nk, d, tick, state, int(grace))
	case "match_signal":
		answer := ""
		if state, answer = running.MatchSignal(ctx, log, nil, nk, d, tick, state, text(first)); state == nil {
			return nil, nil
		}
		return answer, nil
	default:
		return nil, errorf("this module knows no %s", kind)
	}
	return state != nil, nil
}
