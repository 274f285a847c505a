// A plugin as one is written for Nakama's Go runtime: only its imports and the two functions below InitModule are
// throng's. A game of collecting: gifts for who comes first, rules for names and chests, a lobby, and what an operator
// wants of it (dev/e2e/guest_plugin.test.mjs).
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"throng/guest/api"
	"throng/guest/rtapi"
	"throng/guest/runtime"
	"throng/guest/timestamppb"
	"throng/guest/wrapperspb"
)

const lobbyMode uint8 = 101

var errReserved = runtime.NewError("that name is reserved", 3)

func InitModule(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, initializer runtime.Initializer) error {
	for id, function := range map[string]func(context.Context, runtime.Logger, *sql.DB, runtime.NakamaModule, string) (string, error){
		"profile": profile, "lobby": lobby, "games": games, "letters": letters, "chest": chest, "season": season,
		"company": company, "rules": rules, "broken": broken, "careless": careless,
	} {
		if err := initializer.RegisterRpc(id, function); err != nil {
			return err
		}
	}
	return errors.Join(
		initializer.RegisterAfterAuthenticateDevice(giveGifts),
		initializer.RegisterBeforeUpdateAccount(checkNames),
		initializer.RegisterBeforeGetUsers(func(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, in *api.GetUsersRequest) (*api.GetUsersRequest, error) {
			// Nobody looks for everybody.
			if len(in.GetUsernames()) > 2 {
				return nil, nil
			}
			return in, nil
		}),
		initializer.RegisterBeforeWriteStorageObjects(guardChests),
		initializer.RegisterBeforeDeleteAccount(func(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule) error {
			return runtime.NewError("nobody leaves", 7)
		}),
		initializer.RegisterAfterListMatches(func(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, out *api.MatchList, in *api.ListMatchesRequest) error {
			logger.WithField("limit", in.GetLimit().GetValue()).Info("%d matches were listed", len(out.GetMatches()))
			return nil
		}),
		initializer.RegisterBeforeRt("MatchCreate", func(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, in *rtapi.Envelope) (*rtapi.Envelope, error) {
			message, ok := in.Message.(*rtapi.Envelope_MatchCreate)
			if !ok {
				return nil, errors.New("another message")
			}
			if message.MatchCreate.Name == "forbidden" {
				return nil, errReserved
			}
			message.MatchCreate.Name = strings.ToLower(message.MatchCreate.Name)
			return in, nil
		}),
		initializer.RegisterAfterRt("StatusUpdate", func(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, out, in *rtapi.Envelope) error {
			logger.Info("status is %q", in.GetStatusUpdate().GetStatus().GetValue())
			return nil
		}),
		initializer.RegisterEvent(func(ctx context.Context, logger runtime.Logger, evt *api.Event) {
			logger.Info("event %s of %s at %d", evt.GetName(), evt.GetProperties()["who"], evt.GetTimestamp().GetSeconds())
		}),
		initializer.RegisterMatch("hunt", func(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule) (runtime.Match, error) {
			return &hunt{}, nil
		}),
	)
}

func init() { runtime.Module(InitModule) }

func main() {}

func asJSON(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

func userID(ctx context.Context) string {
	id, _ := ctx.Value(runtime.RUNTIME_CTX_USER_ID).(string)
	return id
}

func giveGifts(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, out *api.Session, in *api.AuthenticateDeviceRequest) error {
	if !out.GetCreated() {
		return nil
	}
	id := userID(ctx)
	if _, _, err := nk.WalletUpdate(ctx, id, map[string]int64{"coins": 100}, map[string]any{"device": in.GetAccount().GetId()}, true); err != nil {
		return err
	}
	_, err := nk.StorageWrite(ctx, []*runtime.StorageWrite{{
		Collection: "chests", Key: "first", UserID: id, Value: `{"open":false,"items":[],"worth":9007199254740993}`,
		PermissionRead: runtime.STORAGE_PERMISSION_OWNER_READ, PermissionWrite: runtime.STORAGE_PERMISSION_NO_WRITE,
	}})
	return err
}

func checkNames(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, in *api.UpdateAccountRequest) (*api.UpdateAccountRequest, error) {
	if in.GetUsername().GetValue() == "admin" {
		return nil, errReserved
	}
	if in.DisplayName != nil && in.DisplayName.Value == "" {
		in.DisplayName = wrapperspb.String("Nobody")
	}
	return in, nil
}

func guardChests(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, in *api.WriteStorageObjectsRequest) (*api.WriteStorageObjectsRequest, error) {
	for _, object := range in.GetObjects() {
		if object.Collection == "chests" {
			return nil, runtime.NewError("chests are the server's", 7)
		}
		object.PermissionRead = wrapperspb.Int32(2)
	}
	return in, nil
}

// profile tells of the caller what the server knows.
func profile(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	id := userID(ctx)
	account, err := nk.AccountGetId(ctx, id)
	if err != nil {
		return "", err
	}
	several, err := nk.AccountsGetId(ctx, []string{id}, nil)
	if err != nil {
		return "", err
	}
	users, err := nk.UsersGetId(ctx, []string{id}, nil)
	if err != nil {
		return "", err
	}
	named, err := nk.UsersGetUsername(ctx, []string{account.GetUser().GetUsername()})
	if err != nil {
		return "", err
	}
	random, err := nk.UsersGetRandom(ctx, 1)
	if err != nil {
		return "", err
	}
	chests, cursor, err := nk.StorageList(ctx, "", id, "chests", 10, "")
	if err != nil {
		return "", err
	}
	ledger, _, err := nk.WalletLedgerList(ctx, id, 10, "")
	if err != nil {
		return "", err
	}
	changed, err := nk.WalletLedgerUpdate(ctx, ledger[0].GetID(), map[string]any{"seen": true})
	if err != nil {
		return "", err
	}
	return asJSON(map[string]any{
		"id": account.GetUser().GetId(), "devices": account.GetDevices()[0].GetId(), "wallet": account.GetWallet(),
		"metadata": account.GetUser().GetMetadata(), "since": account.GetUser().GetCreateTime().AsTime().Year(),
		"verified": account.VerifyTime != nil, "several": len(several), "users": users[0].Id == id,
		"named": named[0].Id == id, "random": len(random), "chest": chests[0].Value, "read": chests[0].PermissionRead,
		"written": chests[0].GetUpdateTime().GetSeconds() > 0, "cursor": cursor,
		"ledger": ledger[0].GetChangeset(), "why": ledger[0].GetMetadata(), "seen": changed.GetMetadata(),
	})
}

// lobby puts the caller into a stream, and does what can be done there.
func lobby(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	id := userID(ctx)
	session, _ := ctx.Value(runtime.RUNTIME_CTX_SESSION_ID).(string)
	if _, err := nk.StreamUserJoin(lobbyMode, "", "", "lobby", id, session, false, true, "ready"); err != nil {
		return "", err
	}
	presences, err := nk.StreamUserList(lobbyMode, "", "", "lobby", true, true)
	if err != nil {
		return "", err
	}
	meta, err := nk.StreamUserGet(lobbyMode, "", "", "lobby", id, session)
	if err != nil {
		return "", err
	}
	nobody, err := nk.StreamUserGet(lobbyMode, "", "", "lobby", id, "00000000-0000-4000-8000-000000000001")
	if err != nil {
		return "", err
	}
	if err := errors.Join(
		nk.StreamSend(lobbyMode, "", "", "lobby", "welcome", nil, true),
		nk.StreamSendRaw(lobbyMode, "", "", "lobby", &rtapi.Envelope{Message: &rtapi.Envelope_StatusPresenceEvent{
			StatusPresenceEvent: &rtapi.StatusPresenceEvent{Joins: []*rtapi.UserPresence{{UserId: id, Status: wrapperspb.String("raw")}}},
		}}, presences, true),
		nk.StreamUserKick(lobbyMode, "", "", "lobby", presences[0]),
	); err != nil {
		return "", err
	}
	if payload == "end" {
		return "", nk.SessionDisconnect(ctx, session, runtime.PresenceReasonDisconnect)
	}
	return asJSON(map[string]any{
		"count": len(presences), "same": presences[0].GetUserId() == id && presences[0].GetSessionId() == session,
		"node": presences[0].GetNodeId() != "", "status": meta.GetStatus(), "persistence": meta.GetPersistence(),
		"hidden": meta.GetHidden(), "nobody": nobody == nil,
	})
}

// games makes a match, and finds it.
func games(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	id, err := nk.MatchCreate(ctx, "hunt", map[string]any{"prey": []string{"fox", "hare"}, "players": int32(3)})
	if err != nil {
		return "", err
	}
	found, err := nk.MatchGet(ctx, id)
	if err != nil {
		return "", err
	}
	none, err := nk.MatchGet(ctx, "00000000-0000-4000-8000-000000000001.")
	if err != nil {
		return "", err
	}
	most := 5
	listed, err := nk.MatchList(ctx, 10, true, "", nil, &most, "+label.prey:hare")
	if err != nil {
		return "", err
	}
	_, wrong := nk.MatchGet(ctx, "no id")
	_, gone := nk.MatchSignal(ctx, "00000000-0000-4000-8000-000000000001.", "")
	said, err := nk.MatchSignal(ctx, id, "how many?")
	if err != nil {
		return "", err
	}
	return asJSON(map[string]any{
		"found": found.GetMatchId() == id, "label": found.GetLabel().GetValue(), "rate": found.GetTickRate(),
		"handler": found.GetHandlerName(), "none": none == nil, "listed": len(listed), "said": said,
		"wrong": wrong == runtime.ErrMatchIdInvalid, "gone": gone == runtime.ErrMatchNotFound,
	})
}

// letters sends notifications, changes and deletes them.
func letters(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	id := userID(ctx)
	if err := nk.NotificationsSend(ctx, []*runtime.NotificationSend{
		{UserID: id, Subject: "one", Content: map[string]any{"n": 1}, Code: 7, Persistent: true},
		{UserID: id, Subject: "two", Content: map[string]any{"n": 2}, Code: 7, Sender: id, Persistent: true},
	}); err != nil {
		return "", err
	}
	listed, cursor, err := nk.NotificationsList(ctx, id, 10, "")
	if err != nil {
		return "", err
	}
	subject := "first"
	if err := nk.NotificationsUpdate(ctx, runtime.NotificationUpdate{Id: listed[0].GetId(), Subject: &subject}); err != nil {
		return "", err
	}
	changed, err := nk.NotificationsGetId(ctx, id, []string{listed[0].Id, listed[1].Id})
	if err != nil {
		return "", err
	}
	subjects := map[string]string{}
	for _, one := range changed {
		text, _ := json.Marshal(one.Content)
		subjects[one.Subject] = string(text)
	}
	if err := errors.Join(
		nk.NotificationsDelete(ctx, []*runtime.NotificationDelete{{UserID: id, NotificationID: listed[0].Id}}),
		nk.NotificationsDeleteId(ctx, id, []string{listed[1].Id}),
	); err != nil {
		return "", err
	}
	left, _, err := nk.NotificationsList(ctx, id, 10, "")
	if err != nil {
		return "", err
	}
	return asJSON(map[string]any{
		"listed": len(listed), "content": listed[0].GetContent(), "code": listed[0].GetCode(), "cursor": cursor,
		"sender": listed[1].GetSenderId() == id, "moment": listed[0].GetCreateTime().GetSeconds() > 0, "subjects": subjects,
		"left": len(left), "kept": changed[0].CreateTime.GetSeconds() > 0 && changed[0].Persistent && changed[0].UserID == id,
	})
}

// chest opens the caller's chest: storage and wallet in one step, or neither.
func chest(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	id := userID(ctx)
	read := []*runtime.StorageRead{{Collection: "chests", Key: "first", UserID: id}}
	objects, err := nk.StorageRead(ctx, read)
	if err != nil {
		return "", err
	}
	spare := &runtime.StorageWrite{Collection: "chests", Key: "spare", UserID: id, Value: "{}"}
	if _, err := nk.StorageWrite(ctx, []*runtime.StorageWrite{spare}); err != nil {
		return "", err
	}
	acks, wallets, err := nk.MultiUpdate(ctx,
		[]*runtime.AccountUpdate{{UserID: id, DisplayName: "Opener", Metadata: map[string]any{"opened": 1}}},
		[]*runtime.StorageWrite{{Collection: "chests", Key: "first", UserID: id, Value: `{"open":true}`, Version: objects[0].Version}},
		[]*runtime.StorageDelete{{Collection: "chests", Key: "spare", UserID: id}},
		[]*runtime.WalletUpdate{{UserID: id, Changeset: map[string]int64{"coins": 5}}}, true)
	if err != nil {
		return "", err
	}
	several, err := nk.WalletsUpdate(ctx, []*runtime.WalletUpdate{{UserID: id, Changeset: map[string]int64{"gems": 1}}}, false)
	if err != nil {
		return "", err
	}
	tries := 0
	_, err = nk.StorageWriteRetry(ctx, read, func(objects []*api.StorageObject) ([]*runtime.StorageWrite, error) {
		version := objects[0].Version
		if tries++; tries == 1 {
			version = "0123456789abcdef0123456789abcdef"
		}
		return []*runtime.StorageWrite{{Collection: "chests", Key: "first", UserID: id, Value: `{"open":false}`, Version: version}}, nil
	}, 3)
	if err != nil {
		return "", err
	}
	_, stale := nk.StorageWrite(ctx, []*runtime.StorageWrite{{Collection: "chests", Key: "first", UserID: id, Value: `{}`, Version: objects[0].Version}})
	_, _, poor := nk.WalletUpdate(ctx, id, map[string]int64{"coins": -1000}, nil, false)
	negative := (*runtime.WalletNegativeError)(nil)
	return asJSON(map[string]any{
		"was": objects[0].Value, "acks": len(acks), "key": acks[0].GetKey(), "coins": wallets[0].Updated["coins"],
		"before": wallets[0].Previous["coins"], "gems": several[0].Updated["gems"], "same": several[0].UserID == id,
		"tries": tries, "stale": stale == runtime.ErrStorageRejectedVersion,
		"poor": errors.As(poor, &negative) && negative.Path == "coins",
	})
}

// season tells everybody's handlers of something.
func season(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	return "", nk.Event(ctx, &api.Event{Name: "season", Properties: map[string]string{"who": payload}, Timestamp: timestamppb.Now()})
}

// company is whom the caller knows.
func company(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	id := userID(ctx)
	other, _, _, err := nk.AuthenticateCustom(ctx, "custom-"+id, "", true)
	if err != nil {
		return "", err
	}
	if err := nk.FriendsAdd(ctx, id, "me", []string{other}, nil, map[string]any{"met": "here"}); err != nil {
		return "", err
	}
	invited := 1
	friends, cursor, err := nk.FriendsList(ctx, id, 10, &invited, "")
	if err != nil {
		return "", err
	}
	status, err := nk.UsersGetFriendStatus(ctx, id, []string{other})
	if err != nil {
		return "", err
	}
	further, _, err := nk.FriendsOfFriendsList(ctx, id, 10, "")
	if err != nil {
		return "", err
	}
	return asJSON(map[string]any{
		"friends": len(friends), "state": friends[0].GetState().GetValue(), "metadata": friends[0].GetMetadata(),
		"same": friends[0].GetUser().GetId() == other, "status": len(status), "further": len(further), "cursor": cursor,
	})
}

// rules reads a file of the folder of modules.
func rules(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	file, err := nk.ReadFile(payload)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	return string(text), err
}

func broken(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	return "", errors.New("it is broken")
}

// careless takes what is not there.
func careless(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	var account *api.Account
	return account.Wallet, nil
}

// hunt is a match.
type hunt struct{ players int64 }

func (*hunt) MatchInit(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, params map[string]any) (any, int, string) {
	label, _ := json.Marshal(map[string]any{"prey": params["prey"]})
	players, _ := params["players"].(int64)
	return &hunt{players}, 5, string(label)
}

func (*hunt) MatchJoinAttempt(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, presence runtime.Presence, metadata map[string]string) (any, bool, string) {
	return state, true, ""
}

func (*hunt) MatchJoin(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, presences []runtime.Presence) any {
	for _, presence := range presences {
		logger.Info("%s joins, for reason %d", presence.GetUserId(), presence.GetReason())
	}
	return state
}

func (*hunt) MatchLeave(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, presences []runtime.Presence) any {
	return state
}

func (*hunt) MatchLoop(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, messages []runtime.MatchData) any {
	return state
}

func (*hunt) MatchTerminate(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, graceSeconds int) any {
	return state
}

func (*hunt) MatchSignal(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, data string) (any, string) {
	return state, strings.Repeat("x", int(state.(*hunt).players))
}
