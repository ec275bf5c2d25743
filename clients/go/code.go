package leafd

import "fmt"

// Code is the number of an error of the daemon. 1xx: the bytes break the protocol. 2xx: the call asks for something
// impossible or forbidden. 3xx: the same call may succeed later. A Code is an error only so that
// errors.Is(err, leafd.CodeUnknownTag) works.
type Code uint16

// The codes of docs/protocol.md, section 9.
const (
	CodeBadMagic           Code = 100
	CodeVersionUnsupported Code = 101
	CodeHelloExpected      Code = 102
	CodeMalformed          Code = 103
	CodeUnknownCall        Code = 104
	CodeFrameTooLarge      Code = 105

	CodeBadCount       Code = 200
	CodeBadTag         Code = 201
	CodeUnknownTag     Code = 202
	CodeTagExists      Code = 203
	CodeBadStep        Code = 204
	CodeBadDescription Code = 205
	CodeForbidden      Code = 206
	CodeNotConfigured  Code = 207
	CodeTooManyTags    Code = 208
	CodeUnknownWorker  Code = 209
	CodeWorkerInUse    Code = 210
	CodeWrongOwner     Code = 211
	CodeBadPublicID    Code = 212

	CodeTooManyConnections  Code = 300
	CodeTooManyInFlight     Code = 301
	CodeStoreUnavailable    Code = 302
	CodeStateUnavailable    Code = 303
	CodeClockBackwards      Code = 304
	CodeWorkerUnavailable   Code = 305
	CodeTimeExhausted       Code = 306
	CodeBadRow              Code = 307
	CodeDeadlineExceeded    Code = 308
	CodeShuttingDown        Code = 309
	CodeTooManyWaiting      Code = 310
	CodeRegistryUnavailable Code = 311
	CodeQuotaExceeded       Code = 312
)

var codeNames = map[Code]string{
	CodeBadMagic:           "BadMagic",
	CodeVersionUnsupported: "VersionUnsupported",
	CodeHelloExpected:      "HelloExpected",
	CodeMalformed:          "Malformed",
	CodeUnknownCall:        "UnknownCall",
	CodeFrameTooLarge:      "FrameTooLarge",

	CodeBadCount:       "BadCount",
	CodeBadTag:         "BadTag",
	CodeUnknownTag:     "UnknownTag",
	CodeTagExists:      "TagExists",
	CodeBadStep:        "BadStep",
	CodeBadDescription: "BadDescription",
	CodeForbidden:      "Forbidden",
	CodeNotConfigured:  "NotConfigured",
	CodeTooManyTags:    "TooManyTags",
	CodeUnknownWorker:  "UnknownWorker",
	CodeWorkerInUse:    "WorkerInUse",
	CodeWrongOwner:     "WrongOwner",
	CodeBadPublicID:    "BadPublicId",

	CodeTooManyConnections:  "TooManyConnections",
	CodeTooManyInFlight:     "TooManyInFlight",
	CodeStoreUnavailable:    "StoreUnavailable",
	CodeStateUnavailable:    "StateUnavailable",
	CodeClockBackwards:      "ClockBackwards",
	CodeWorkerUnavailable:   "WorkerUnavailable",
	CodeTimeExhausted:       "TimeExhausted",
	CodeBadRow:              "BadRow",
	CodeDeadlineExceeded:    "DeadlineExceeded",
	CodeShuttingDown:        "ShuttingDown",
	CodeTooManyWaiting:      "TooManyWaiting",
	CodeRegistryUnavailable: "RegistryUnavailable",
	CodeQuotaExceeded:       "QuotaExceeded",
}

// Name is the name in docs/protocol.md; Unknown if this version of the package does not list the number.
func (code Code) Name() string {
	if name, known := codeNames[code]; known {
		return name
	}
	return "Unknown"
}

// Error returns number and name, as in "302 StoreUnavailable".
func (code Code) Error() string { return fmt.Sprintf("%d %s", uint16(code), code.Name()) }

// Temporary reports whether the same call may succeed later without anyone changing anything. An unknown number is
// treated like its class.
func (code Code) Temporary() bool {
	return code/100 == 3 && code != CodeTimeExhausted && code != CodeBadRow
}
