//go:build wasip1

package runtime

import (
	"context"

	"throng/guest/api"
	"throng/guest/rtapi"
)

// missing is what the server says of a function that it does not have yet.
func missing[T any](name string) (T, error) {
	var none T
	return none, do(name)
}

func noLogin(name string) (string, string, bool, error) {
	return "", "", false, do(name)
}

func (module) AuthenticateApple(context.Context, string, string, bool) (string, string, bool, error) {
	return noLogin("authenticate_apple")
}

func (module) AuthenticateFacebook(context.Context, string, bool, string, bool) (string, string, bool, error) {
	return noLogin("authenticate_facebook")
}

func (module) AuthenticateFacebookInstantGame(context.Context, string, string, bool) (string, string, bool, error) {
	return noLogin("authenticate_facebook_instant_game")
}

func (module) AuthenticateGameCenter(context.Context, string, string, int64, string, string, string, string, bool) (string, string, bool, error) {
	return noLogin("authenticate_game_center")
}

func (module) AuthenticateGoogle(context.Context, string, string, bool) (string, string, bool, error) {
	return noLogin("authenticate_google")
}

func (module) AuthenticateSteam(context.Context, string, string, bool) (string, string, bool, error) {
	return noLogin("authenticate_steam")
}

func (module) AccountExportId(context.Context, string) (string, error) {
	return missing[string]("account_export_id")
}

func (module) AccountImportId(context.Context, string, string) (*api.Account, error) {
	return missing[*api.Account]("account_import_id")
}

func (module) LinkApple(context.Context, string, string) error { return do("link_apple") }

func (module) LinkFacebook(context.Context, string, string, string, bool) error {
	return do("link_facebook")
}

func (module) LinkFacebookInstantGame(context.Context, string, string) error {
	return do("link_facebook_instant_game")
}

func (module) LinkGameCenter(context.Context, string, string, string, int64, string, string, string) error {
	return do("link_gamecenter")
}

func (module) LinkGoogle(context.Context, string, string) error { return do("link_google") }

func (module) LinkSteam(context.Context, string, string, string, bool) error { return do("link_steam") }

func (module) UnlinkApple(context.Context, string, string) error { return do("unlink_apple") }

func (module) UnlinkFacebook(context.Context, string, string) error { return do("unlink_facebook") }

func (module) UnlinkFacebookInstantGame(context.Context, string, string) error {
	return do("unlink_facebook_instant_game")
}

func (module) UnlinkGameCenter(context.Context, string, string, string, int64, string, string, string) error {
	return do("unlink_gamecenter")
}

func (module) UnlinkGoogle(context.Context, string, string) error { return do("unlink_google") }

func (module) UnlinkSteam(context.Context, string, string) error { return do("unlink_steam") }

func (module) StorageIndexList(context.Context, string, string, string, int, []string, string) (*api.StorageObjects, string, error) {
	return nil, "", do("storage_index_list")
}

func (module) LeaderboardCreate(context.Context, string, bool, string, string, string, map[string]any, bool) error {
	return do("leaderboard_create")
}

func (module) LeaderboardDelete(context.Context, string) error { return do("leaderboard_delete") }

func (module) LeaderboardRanksDisable(context.Context, string) error {
	return do("leaderboard_ranks_disable")
}

func (module) LeaderboardRecordsListCursorFromRank(string, int64, int64) (string, error) {
	return missing[string]("leaderboard_records_list_cursor_from_rank")
}

func (module) LeaderboardRecordDelete(context.Context, string, string) error {
	return do("leaderboard_record_delete")
}

func (module) TournamentCreate(context.Context, string, bool, string, string, string, map[string]any, string, string, int, int, int, int, int, int, bool, bool) error {
	return do("tournament_create")
}

func (module) TournamentDelete(context.Context, string) error { return do("tournament_delete") }

func (module) TournamentAddAttempt(context.Context, string, string, int) error {
	return do("tournament_add_attempt")
}

func (module) TournamentJoin(context.Context, string, string, string) error {
	return do("tournament_join")
}

func (module) TournamentRanksDisable(context.Context, string) error {
	return do("tournament_ranks_disable")
}

func (module) TournamentRecordDelete(context.Context, string, string) error {
	return do("tournament_record_delete")
}

func (module) GroupUpdate(context.Context, string, string, string, string, string, string, string, bool, map[string]any, int) error {
	return do("group_update")
}

func (module) GroupDelete(context.Context, string) error { return do("group_delete") }

func (module) GroupUserJoin(context.Context, string, string, string) error {
	return do("group_user_join")
}

func (module) GroupUserLeave(context.Context, string, string, string) error {
	return do("group_user_leave")
}

func (module) GroupUsersAdd(context.Context, string, string, []string) error {
	return do("group_users_add")
}

func (module) GroupUsersBan(context.Context, string, string, []string) error {
	return do("group_users_ban")
}

func (module) GroupUsersKick(context.Context, string, string, []string) error {
	return do("group_users_kick")
}

func (module) GroupUsersPromote(context.Context, string, string, []string) error {
	return do("group_users_promote")
}

func (module) GroupUsersDemote(context.Context, string, string, []string) error {
	return do("group_users_demote")
}

func (module) ChannelIdBuild(context.Context, string, string, ChannelType) (string, error) {
	return missing[string]("channel_id_build")
}

func (module) ChannelMessageSend(context.Context, string, map[string]any, string, string, bool) (*rtapi.ChannelMessageAck, error) {
	return missing[*rtapi.ChannelMessageAck]("channel_message_send")
}

func (module) ChannelMessageUpdate(context.Context, string, string, map[string]any, string, string, bool) (*rtapi.ChannelMessageAck, error) {
	return missing[*rtapi.ChannelMessageAck]("channel_message_update")
}

func (module) ChannelMessageRemove(context.Context, string, string, string, string, bool) (*rtapi.ChannelMessageAck, error) {
	return missing[*rtapi.ChannelMessageAck]("channel_message_remove")
}
