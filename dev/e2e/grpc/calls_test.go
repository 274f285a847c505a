// The calls themselves: what comes back is what REST answers, and errors carry gRPC's codes.
package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/heroiclabs/nakama-common/api"
	"github.com/heroiclabs/nakama/v3/apigrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var nothing = &emptypb.Empty{}

func TestHealthcheckNeedsNoCredentials(t *testing.T) {
	must(apigrpc.NewNakamaClient(dial(t)).Healthcheck(background(t), nothing))
}

func TestLogins(t *testing.T) {
	client := apigrpc.NewNakamaClient(dial(t))
	ctx := with(background(t), basic(serverKey))
	custom := &api.AuthenticateCustomRequest{
		Account: &api.AccountCustom{Id: unique("custom-id"), Vars: map[string]string{"hat": "red", "shoe": ""}},
	}
	first, again := must(client.AuthenticateCustom(ctx, custom)), must(client.AuthenticateCustom(ctx, custom))
	if !first.Created || again.Created {
		t.Errorf("created: %v, then %v", first.Created, again.Created)
	}
	email := &api.AuthenticateEmailRequest{
		Account: &api.AccountEmail{Email: unique("go") + "@example.com", Password: "a long password"},
	}
	session := must(client.AuthenticateEmail(ctx, email))
	email.Account.Password = "another password"
	_, err := client.AuthenticateEmail(ctx, email)
	refused(t, err, codes.Unauthenticated, "Invalid credentials.")

	renewed := must(client.SessionRefresh(ctx, &api.SessionRefreshRequest{
		Token: session.RefreshToken, Vars: map[string]string{"hat": "blue"},
	}))
	bearer := with(background(t), "Bearer "+renewed.Token)
	must(client.GetAccount(bearer, nothing))
	must(client.SessionLogout(bearer, &api.SessionLogoutRequest{Token: renewed.Token, RefreshToken: renewed.RefreshToken}))
	_, err = client.GetAccount(bearer, nothing)
	refused(t, err, codes.Unauthenticated, "Auth token invalid")
}

func TestCredentialsAreReadAsInNakama(t *testing.T) {
	client := apigrpc.NewNakamaClient(dial(t))
	device := &api.AuthenticateDeviceRequest{Account: &api.AccountDevice{Id: unique("device-of-go")}}
	_, err := client.AuthenticateDevice(background(t), device)
	refused(t, err, codes.Unauthenticated, "Server key required")
	_, err = client.AuthenticateDevice(with(background(t), basic("wrong")), device)
	refused(t, err, codes.Unauthenticated, "Server key invalid")
	_, err = client.GetAccount(background(t), nothing)
	refused(t, err, codes.Unauthenticated, "Auth token required")
	_, err = client.GetAccount(with(background(t), "Bearer nonsense"), nothing)
	refused(t, err, codes.Unauthenticated, "Auth token invalid")
	p := newPlayer(t)
	_, err = p.GetAccount(with(p.ctx, "Bearer "+p.session.Token), nothing)
	refused(t, err, codes.Unauthenticated, "Auth token invalid")
	// What the gateway of Nakama sends.
	ctx := metadata.AppendToOutgoingContext(background(t), "grpcgateway-authorization", "Bearer "+p.session.Token)
	must(p.GetAccount(ctx, nothing))
}

// rest gives REST's answer to the same caller, as the same message.
func rest[M proto.Message](t *testing.T, p player, path string, message M) M {
	t.Helper()
	request := must(http.NewRequest("GET", httpURL+path, nil))
	request.Header.Set("Authorization", "Bearer "+p.session.Token)
	response := must(http.DefaultClient.Do(request))
	defer response.Body.Close()
	body := must(io.ReadAll(response.Body))
	if response.StatusCode != 200 {
		t.Fatalf("%s: %d %s", path, response.StatusCode, body)
	}
	if err := protojson.Unmarshal(body, message); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return message
}

func same(t *testing.T, got, want proto.Message) {
	t.Helper()
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestAccounts(t *testing.T) {
	p := newPlayer(t)
	must(p.UpdateAccount(p.ctx, &api.UpdateAccountRequest{
		DisplayName: wrapperspb.String("Gö <&> \U0001f3ae"),
		LangTag:     wrapperspb.String("de"),
		Location:    wrapperspb.String(""),
	}))
	must(p.LinkCustom(p.ctx, &api.AccountCustom{Id: unique("linked")}))
	account := must(p.GetAccount(p.ctx, nothing))
	if account.User.Username != p.name || account.User.DisplayName != "Gö <&> \U0001f3ae" || account.User.LangTag != "de" {
		t.Errorf("account: %v", account)
	}
	if age := time.Since(account.User.CreateTime.AsTime()); age > time.Hour || age < -time.Hour {
		t.Errorf("created %v ago", age)
	}
	same(t, account, rest(t, p, "/v2/account", &api.Account{}))
	other := newPlayer(t)
	users := must(p.GetUsers(p.ctx, &api.GetUsersRequest{Ids: []string{p.id}, Usernames: []string{other.name}}))
	if len(users.Users) != 2 {
		t.Errorf("users: %v", users)
	}
	same(t, users, rest(t, p, "/v2/user?ids="+p.id+"&usernames="+other.name, &api.Users{}))
	must(other.DeleteAccount(other.ctx, nothing))
	_, err := other.GetAccount(other.ctx, nothing)
	refused(t, err, codes.Unauthenticated, "")
}

func TestStorage(t *testing.T) {
	p := newPlayer(t)
	write := func(key, value, version string) (*api.StorageObjectAcks, error) {
		return p.WriteStorageObjects(p.ctx, &api.WriteStorageObjectsRequest{Objects: []*api.WriteStorageObject{{
			Collection: "go", Key: key, Value: value, Version: version,
			PermissionRead: wrapperspb.Int32(2), PermissionWrite: wrapperspb.Int32(1),
		}}})
	}
	acks := must(write("one", `{"a":[1,2.5,"ö"]}`, ""))
	must(write("two", `{}`, "*"))
	_, err := write("one", `{}`, "*")
	refused(t, err, codes.InvalidArgument, "Storage write rejected - version check failed.")
	_, err = write("one", `no json`, "")
	refused(t, err, codes.InvalidArgument, "")
	id := &api.ReadStorageObjectId{Collection: "go", Key: "one", UserId: p.id}
	read := must(p.ReadStorageObjects(p.ctx, &api.ReadStorageObjectsRequest{ObjectIds: []*api.ReadStorageObjectId{id}}))
	if len(read.Objects) != 1 || read.Objects[0].Version != acks.Acks[0].Version || read.Objects[0].PermissionRead != 2 {
		t.Fatalf("read: %v", read)
	}
	var value struct{ A []any }
	if json.Unmarshal([]byte(read.Objects[0].Value), &value) != nil || len(value.A) != 3 {
		t.Errorf("value: %s", read.Objects[0].Value)
	}
	list := &api.ListStorageObjectsRequest{Collection: "go", UserId: p.id, Limit: wrapperspb.Int32(1)}
	page := must(p.ListStorageObjects(p.ctx, list))
	list.Cursor = page.Cursor
	rest2 := must(p.ListStorageObjects(p.ctx, list))
	if len(page.Objects) != 1 || len(rest2.Objects) != 1 || page.Objects[0].Key == rest2.Objects[0].Key {
		t.Errorf("pages: %v, %v", page, rest2)
	}
	same(t, page, rest(t, p, "/v2/storage/go/"+p.id+"?limit=1", &api.StorageObjectList{}))
	must(p.DeleteStorageObjects(p.ctx, &api.DeleteStorageObjectsRequest{
		ObjectIds: []*api.DeleteStorageObjectId{{Collection: "go", Key: "one"}},
	}))
	read = must(p.ReadStorageObjects(p.ctx, &api.ReadStorageObjectsRequest{ObjectIds: []*api.ReadStorageObjectId{id}}))
	if len(read.Objects) != 0 {
		t.Errorf("read what was deleted: %v", read)
	}
}

func TestFriendsAndNotifications(t *testing.T) {
	ann, bob := newPlayer(t), newPlayer(t)
	must(ann.AddFriends(ann.ctx, &api.AddFriendsRequest{Ids: []string{bob.id}}))
	invited := must(bob.ListFriends(bob.ctx, &api.ListFriendsRequest{State: wrapperspb.Int32(2)}))
	if len(invited.Friends) != 1 || invited.Friends[0].User.Id != ann.id || invited.Friends[0].State.GetValue() != 2 {
		t.Fatalf("invitations: %v", invited)
	}
	same(t, invited, rest(t, bob, "/v2/friend?state=2", &api.FriendList{}))
	must(bob.AddFriends(bob.ctx, &api.AddFriendsRequest{Usernames: []string{ann.name}}))
	friends := must(ann.ListFriends(ann.ctx, &api.ListFriendsRequest{Limit: wrapperspb.Int32(10)}))
	if len(friends.Friends) != 1 || friends.Friends[0].State.GetValue() != 0 || friends.Friends[0].State == nil {
		t.Fatalf("friends: %v", friends)
	}
	list := must(ann.ListNotifications(ann.ctx, &api.ListNotificationsRequest{Limit: wrapperspb.Int32(10)}))
	if len(list.Notifications) == 0 || list.Notifications[0].SenderId != bob.id || !list.Notifications[0].Persistent {
		t.Fatalf("notifications: %v", list)
	}
	same(t, list, rest(t, ann, "/v2/notification?limit=10", &api.NotificationList{}))
	must(ann.DeleteNotifications(ann.ctx, &api.DeleteNotificationsRequest{Ids: []string{list.Notifications[0].Id}}))
	left := must(ann.ListNotifications(ann.ctx, &api.ListNotificationsRequest{Limit: wrapperspb.Int32(10)}))
	if len(left.Notifications) != len(list.Notifications)-1 {
		t.Errorf("left: %v", left)
	}
	must(ann.BlockFriends(ann.ctx, &api.BlockFriendsRequest{Ids: []string{bob.id}}))
	must(ann.DeleteFriends(ann.ctx, &api.DeleteFriendsRequest{Ids: []string{bob.id}}))
	_, err := ann.AddFriends(ann.ctx, &api.AddFriendsRequest{Ids: []string{"no id"}})
	refused(t, err, codes.InvalidArgument, "")
}

func TestEventsAndMatches(t *testing.T) {
	p := newPlayer(t)
	must(p.Event(p.ctx, &api.Event{Name: "go", Timestamp: timestamppb.Now(), Properties: map[string]string{"a": "b"}}))
	created := must(p.RpcFunc(p.ctx, &api.Rpc{Id: "e2e_create_match", Payload: `{"module":"empty_match","params":{}}`}))
	if created.Payload == "" {
		t.Fatal("no match")
	}
	list := &api.ListMatchesRequest{Limit: wrapperspb.Int32(100), Authoritative: wrapperspb.Bool(true)}
	if matches := must(p.ListMatches(p.ctx, list)); len(matches.Matches) == 0 || !matches.Matches[0].Authoritative {
		t.Errorf("matches: %v", matches)
	}
}

func TestRpc(t *testing.T) {
	p := newPlayer(t)
	for _, payload := range []string{"", "x", `{"a":1}`, "é日本\U0001f3ae", strings.Repeat("x", 200_000)} {
		answer := must(p.RpcFunc(p.ctx, &api.Rpc{Id: "E2E_Echo", Payload: payload}))
		if answer.Payload != payload || answer.Id != "" {
			t.Errorf("%d bytes came back as %d", len(payload), len(answer.Payload))
		}
	}
	if answer := must(p.RpcFunc(p.ctx, &api.Rpc{Id: "e2e_nothing"})); answer.Payload != "" {
		t.Errorf("nothing is %q", answer.Payload)
	}
	type seen struct {
		ExecutionMode string              `json:"execution_mode"`
		UserID        string              `json:"user_id"`
		QueryParams   map[string][]string `json:"query_params"`
	}
	context := func(answer *api.Rpc) (got seen) {
		if err := json.Unmarshal([]byte(answer.Payload), &got); err != nil {
			t.Fatalf("%v in %s", err, answer.Payload)
		}
		return got
	}
	ctx := metadata.AppendToOutgoingContext(p.ctx, "q_color", "red")
	got := context(must(p.RpcFunc(ctx, &api.Rpc{Id: "e2e_context"})))
	if got.ExecutionMode != "rpc" || got.UserID != p.id || len(got.QueryParams["color"]) != 1 {
		t.Errorf("context: %+v", got)
	}
	byKey := &api.Rpc{Id: "e2e_context", HttpKey: httpKey}
	if got := context(must(p.RpcFunc(background(t), byKey))); got.UserID != "" {
		t.Errorf("a user by the key of servers: %+v", got)
	}
	byKey.HttpKey = "wrong"
	_, err := p.RpcFunc(background(t), byKey)
	refused(t, err, codes.Unauthenticated, "HTTP key invalid")
	_, err = p.RpcFunc(background(t), &api.Rpc{Id: "e2e_echo"})
	refused(t, err, codes.Unauthenticated, "Auth token or HTTP key required")
	// With credentials of servers in the header, as REST takes them, but not gRPC.
	_, err = p.RpcFunc(with(background(t), basic(httpKey)), &api.Rpc{Id: "e2e_echo"})
	refused(t, err, codes.Unauthenticated, "Auth token invalid")
	_, err = p.RpcFunc(p.ctx, &api.Rpc{Id: "no_such_function"})
	refused(t, err, codes.NotFound, "RPC function not found")
	_, err = p.RpcFunc(p.ctx, &api.Rpc{})
	refused(t, err, codes.InvalidArgument, "RPC ID must be set")
	_, err = p.RpcFunc(p.ctx, &api.Rpc{Id: "e2e_fail", Payload: `{"code":9,"message":"50 % ä\nno"}`})
	refused(t, err, codes.FailedPrecondition, "50 % ä\nno")
	_, err = p.RpcFunc(p.ctx, &api.Rpc{Id: "e2e_throw"})
	refused(t, err, codes.Internal, "")
}

func TestHooksSeeCallsOverGRPC(t *testing.T) {
	client := apigrpc.NewNakamaClient(dial(t))
	ctx := with(background(t), basic(serverKey))
	login := func(id, username string, vars map[string]string) (*api.Session, error) {
		account := &api.AccountCustom{Id: id, Vars: vars}
		return client.AuthenticateCustom(ctx, &api.AuthenticateCustomRequest{Account: account, Username: username})
	}
	_, err := login(unique("custom-id"), "e2e-hook-blocked", nil)
	refused(t, err, codes.NotFound, "Requested resource was not found.")
	_, err = login(unique("custom-id"), "e2e-hook-refused", nil)
	refused(t, err, codes.PermissionDenied, "this name is refused")
	session := must(login(unique("custom-id"), "", map[string]string{"hooked": "yes"}))
	bearer := with(background(t), "Bearer "+session.Token)
	answer := must(client.RpcFunc(bearer, &api.Rpc{Id: "e2e_hook_seen", Payload: "authenticate"}))
	var seen struct {
		HasToken bool `json:"has_token"`
		Created  bool `json:"created"`
		Mode     string
		Request  struct {
			Account struct{ Vars map[string]string }
		}
	}
	if err := json.Unmarshal([]byte(answer.Payload), &seen); err != nil {
		t.Fatal(err)
	}
	if !seen.HasToken || !seen.Created || seen.Mode != "after" || seen.Request.Account.Vars["hooked"] != "yes" {
		t.Errorf("the after-hook saw %s", answer.Payload)
	}
}

// Of every method of Nakama's service: either it is built, and refuses a caller without credentials, or it says
// by its name that it is not.
func TestEveryMethodIsKnown(t *testing.T) {
	p := newPlayer(t)
	service := apigrpc.File_apigrpc_proto.Services().ByName("Nakama")
	built, missing := 0, 0
	for i := range service.Methods().Len() {
		method := service.Methods().Get(i)
		name := string(method.Name())
		if method.IsStreamingClient() || method.IsStreamingServer() {
			t.Errorf("%s is a stream", name)
		}
		err := invoke(p, t, method)
		switch got := status.Convert(err); {
		case name == "Healthcheck" && err == nil:
		case got.Code() == codes.Unauthenticated:
			built++
		case got.Code() == codes.Unimplemented && strings.HasPrefix(got.Message(), name+": ") &&
			strings.HasSuffix(got.Message(), "not implemented in throng yet"):
			missing++
		default:
			t.Errorf("%s: %v", name, err)
		}
	}
	if built < 29 || built+missing != 84 {
		t.Errorf("%d built, %d missing", built, missing)
	}
	err := p.conn.Invoke(p.ctx, "/nakama.api.Nakama/Nothing", nothing, nothing)
	refused(t, err, codes.Unimplemented, "unknown method Nothing for service nakama.api.Nakama")
	for _, method := range []string{
		"grpc.health.v1.Health/Check",
		"grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	} {
		service, _, _ := strings.Cut(method, "/")
		refused(t, p.conn.Invoke(p.ctx, "/"+method, nothing, nothing), codes.Unimplemented, "unknown service "+service)
	}
}

// As gRPC's library answers for Nakama.
func TestMessagesThatCannotBeReadAreRefused(t *testing.T) {
	p := newPlayer(t)
	wrong := &wrapperspb.BytesValue{Value: []byte("\xff")} // No UTF-8, where a text belongs.
	for _, method := range []string{"RpcFunc", "AuthenticateDevice"} {
		err := p.conn.Invoke(p.ctx, "/nakama.api.Nakama/"+method, wrong, &emptypb.Empty{})
		if got := status.Convert(err); got.Code() != codes.Internal || !strings.HasPrefix(got.Message(), "grpc: error unmarshalling request: ") {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// invoke calls a method without credentials and with an empty request.
func invoke(p player, t *testing.T, method protoreflect.MethodDescriptor) error {
	path := "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
	return p.conn.Invoke(background(t), path, dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output()))
}

// As in Nakama, whose gateway knows JSON alone: a type of content changes nothing.
func TestRESTSpeaksJSONWhateverTheTypeOfContent(t *testing.T) {
	p := newPlayer(t)
	request := must(http.NewRequest("PUT", httpURL+"/v2/account", bytes.NewBufferString(`{"lang_tag":"fr"}`)))
	request.Header.Set("Authorization", "Bearer "+p.session.Token)
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("Accept", "application/x-protobuf")
	response := must(http.DefaultClient.Do(request))
	defer response.Body.Close()
	body := must(io.ReadAll(response.Body))
	if response.StatusCode != 200 || string(body) != "{}" || response.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%v %s", response, body)
	}
	if account := must(p.GetAccount(p.ctx, nothing)); account.User.LangTag != "fr" {
		t.Errorf("account: %v", account)
	}
}
