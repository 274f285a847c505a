//go:build wasip1

package wire

import (
	"errors"
	"unsafe"
)

// Version is the version of the convention.
const Version = 1

// BytesKept is how much memory of what goes over the border is kept for the next time.
const BytesKept = 64 << 10

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

// kept is a buffer that is kept for the next time, unless it is large.
func kept(buffer []byte) []byte {
	if cap(buffer) > BytesKept {
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

// End makes the call and gives the bytes of what the function returns, a list: until the next call, which writes over them.
// It may wait meanwhile, and other calls run. A refusal is an error with the server's text.
func End(call []byte) ([]byte, error) {
	answer := answered
	answered = nil
	answer = Take(hostCall(unsafe.Pointer(unsafe.SliceData(call)), uint32(len(call))), answer)
	asked, answered = kept(call), kept(answer)
	if len(answer) == 0 {
		return nil, errBadValue
	}
	if answer[0] == 0 {
		return answer[1:], nil
	}
	value, err := Decode(answer[1:])
	if err != nil {
		return nil, err
	}
	text, _ := value.(string)
	return nil, errors.New(text)
}

// Call calls a function of the server with these arguments, and gives what it returns.
func Call(name string, arguments ...any) ([]any, error) {
	bytes := Begin(name, len(arguments))
	var err error
	for _, argument := range arguments {
		if bytes, err = Append(bytes, argument); err != nil {
			return nil, err
		}
	}
	answer, err := End(bytes)
	if err != nil {
		return nil, err
	}
	value, err := Decode(answer)
	if err != nil {
		return nil, err
	}
	results, _ := value.([]any)
	return results, nil
}
