package localstack

// chinese has the Chinese for the formats of Options.Log, by the English ones.
var chinese = map[string]string{
	"%s: %s, as given":                                        "%s：%s（由你指定）",
	"%s: none, because: %s":                                   "%s：没有，原因：%s",
	"%s: %s at %s (%s)":                                       "%s：%s，地址 %s（%s）",
	"%s: %d × %s at %s (%s)":                                  "%s：%d × %s，地址 %s（%s）",
	"kafka: %s at %s (%s, %s)":                                "kafka：%s，地址 %s（%s，%s）",
	"kafka: %s at %s, because: %s":                            "kafka：%s，地址 %s，原因：%s",
	"%s: %s was taken meanwhile, trying another port":         "%s：%s 刚被占用，换一个端口",
	"redis: %s, as given":                                     "redis：%s（由你指定）",
	"redis: %s at %s (%s)":                                    "redis：%s，地址 %s（%s）",
	"redis: %s at %s, because: %s":                            "redis：%s，地址 %s，原因：%s",
	"replica %s: at %s":                                       "副本 %s：%s",
	"replica %s: goes on without the mode kafka, because: %s": "副本 %s：不提供 kafka 模式，继续运行，原因：%s",
	"balancer: %s at %s (%s)":                                 "负载均衡：%s，地址 %s（%s）",
	"balancer: %s at %s, because: %s":                         "负载均衡：%s，地址 %s，原因：%s",
	"%s has died: %s; starting it again":                      "%s 已退出：%s；正在重启",
	"%s: started again, pid %d":                               "%s：已重启，pid %d",
	"%s does not start: %s; trying again in %v":               "%s 启动失败：%s；%v 后重试",
	"sql: %s, as given":                                       "sql：%s（由你指定）",
	"sql: %s at %s (%s)":                                      "sql：%s，地址 %s（%s）",
	"sql: %s in %s, because: %s":                              "sql：%s，文件 %s，原因：%s",
}

// inLanguage returns log, or one that translates the formats before.
func inLanguage(lang string, log func(format string, args ...any)) func(format string, args ...any) {
	if lang != "zh" {
		return log
	}
	return func(format string, args ...any) {
		if text, ok := chinese[format]; ok {
			format = text
		}
		for i := range args {
			if args[i] == onRequest {
				args[i] = "你指定用内嵌的"
			}
		}
		log(format, args...)
	}
}
