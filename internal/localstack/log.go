package localstack

import "lastitem/internal/text"

// inLanguage returns log, or one that translates the formats before.
func inLanguage(lang string, log func(format string, args ...any)) func(format string, args ...any) {
	if lang != "zh" {
		return log
	}
	return func(format string, args ...any) {
		format = text.Known(format).In(lang)
		for i := range args {
			if args[i] == onRequest {
				args[i] = text.Of("asked for").In(lang)
			}
		}
		log(format, args...)
	}
}
