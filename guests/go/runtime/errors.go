package runtime

import (
	"errors"
	"strings"
)

// Refusals that methods of NakamaModule give as they stand here, for a game to compare with.
var (
	ErrStorageRejectedVersion       = errors.New("Storage write rejected - version check failed.")
	ErrStorageRejectedPermission    = errors.New("Storage write rejected - permission denied.")
	ErrStorageWriteExhaustedRetries = errors.New("Storage write retries exhausted.")
	ErrWalletLedgerInvalidCursor    = errors.New("wallet ledger cursor invalid")
	ErrMatchIdInvalid               = errors.New("match id invalid")
	ErrMatchNotFound                = errors.New("match not found")
	ErrMatchBusy                    = errors.New("match busy")
	ErrMatchLabelTooLong            = errors.New("match label too long, must be 0-2048 bytes")
	ErrDeferredBroadcastFull        = errors.New("too many deferred message broadcasts per tick")
)

var refusals = []error{
	ErrStorageRejectedVersion, ErrStorageRejectedPermission, ErrWalletLedgerInvalidCursor, ErrMatchIdInvalid,
	ErrMatchNotFound, ErrMatchBusy, ErrMatchLabelTooLong, ErrDeferredBroadcastFull,
}

// WalletNegativeError is the refusal of a change that would take more from a wallet than is in it.
type WalletNegativeError struct {
	UserID  string
	Path    string
	Current int64
	Amount  int64
}

const negative = "wallet update rejected negative value at path '"

func (e *WalletNegativeError) Error() string { return negative + e.Path + "'" }

// refused is the refusal above that the server's text names, or what it was.
func refused(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, refusal := range refusals {
		if strings.Contains(text, refusal.Error()) {
			return refusal
		}
	}
	if _, path, is := strings.Cut(text, negative); is {
		// The server tells neither the user nor the amounts.
		return &WalletNegativeError{Path: strings.TrimSuffix(path, "'")}
	}
	return err
}
