package consumer

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Refusal is a request's outcome other than success. It unwraps to the error of the protocol.
type Refusal struct {
	Code    *kerr.Error
	Message string // for ErrorMessage fields of replies; says what was wrong with this request
}

// Error implements error.
func (r *Refusal) Error() string { return r.Code.Message + ": " + r.Message }

// Unwrap returns the error of the protocol.
func (r *Refusal) Unwrap() error { return r.Code }

// CodeOf returns the wire code and the message of an error of this package.
func CodeOf(err error) (int16, string) {
	if err == nil {
		return 0, ""
	}
	var r *Refusal
	if errors.As(err, &r) {
		return r.Code.Code, r.Message
	}
	return kerr.UnknownServerError.Code, err.Error()
}

func refuse(code *kerr.Error, format string, args ...any) error {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}
