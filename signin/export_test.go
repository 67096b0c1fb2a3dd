package signin

// What tests of both doors hold pages against.
const (
	AttemptLifetime  = attemptLifetime
	MaxReason        = maxReason
	SealedAttempt    = sealedAttempt
	SecondLifetime   = secondLifetime
	WrongFactorsMost = wrongFactorsMost
)

var (
	ForgotAddress = forgotAddress
	SecondAccount = secondAccount
	SignInAddress = signInAddress
	SignInPair    = signInPair
)

func (s *Server) SealOneTime(person string, secret []byte) string {
	return s.sealOneTime(person, secret)
}
