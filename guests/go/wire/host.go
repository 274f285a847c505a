//go:build wasip1

package wire

import (
	"errors"
	"unsafe"
)

// Version is the version of the convention.
const Version = 1

// bytesKept is how much memory of what goes over the border is kept for the next time.
const bytesKept = 64 << 10

//go:wasmimport throng call
func hostCall(at unsafe.Pointer, length uint32) uint32

//go:wasmimport throng take
func hostTake(at unsafe.Pointer, length uint32)

//go:wasmimport throng give
func hostGive(at unsafe.Pointer, length uint32)

// Take gives what the server has for the guest, in place of what is there if that has room for it.
func Take(length uint32, there []byte) []byte {
	if uint32(cap(there)) < length {
		there = make([]byte, length)
	}
	there = there[:length]
	hostTake(unsafe.Pointer(unsafe.SliceData(there)), length)
	return there
}

// Give hands the server what the running call comes to.
func Give(bytes []byte) {
	hostGive(unsafe.Pointer(unsafe.SliceData(bytes)), uint32(len(bytes)))
}

// asked has the bytes of the last call of a function of the server, and answered those of its answer: the next one writes
// over both.
var asked, answered []byte

// Kept is a buffer that is kept for the next time, unless it is large.
func Kept(buffer []byte) []byte {
	if cap(buffer) > bytesKept {
		return nil
	}
	return buffer
}

// Begin begins a call of a function of the server by its name there, docs/lua/functions.md: so many arguments are to be
// appended, and [End] ends it. Nobody else has the bytes meanwhile, nor after a panic.
func Begin(name string, arguments int) []byte {
	bytes := asked[:0]
	asked = nil
	return AppendText(AppendList(bytes, 1+arguments), name)
}

// End makes the call of a function that returns nothing. A refusal is an error with the server's text.
func End(call []byte) error {
	_, err := finish(call, false)
	return err
}

// Call calls a function of the server with these arguments, and gives what it returns. It may wait meanwhile, and other
// calls run. A refusal is an error with the server's text.
func Call(name string, arguments ...any) ([]any, error) {
	bytes := Begin(name, len(arguments))
	var err error
	for _, argument := range arguments {
		if bytes, err = Append(bytes, argument); err != nil {
			return nil, err
		}
	}
	value, err := finish(bytes, true)
	results, _ := value.([]any)
	return results, err
}

// finish makes a call, and decodes what it returns if somebody wants that. Both buffers are this call's until it has: another
// goroutine may run while memory is taken.
func finish(call []byte, wanted bool) (value any, err error) {
	answer := answered
	answered = nil
	answer = Take(hostCall(unsafe.Pointer(unsafe.SliceData(call)), uint32(len(call))), answer)
	switch {
	case len(answer) == 0:
		err = errBadValue
	case answer[0] != 0:
		if value, err = Decode(answer[1:]); err == nil {
			text, _ := value.(string)
			value, err = nil, errors.New(text)
		}
	case wanted:
		value, err = Decode(answer[1:])
	}
	asked, answered = Kept(call), Kept(answer)
	return value, err
}
