package stock_test

import (
	"testing"

	"lastitem/internal/stock/stocktest"
	"lastitem/internal/testenv"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, e := range stocktest.Envs {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			env := e.Open(t)
			if e.Whole {
				env, _ = env.WithServices(t).WithRedlock(t)
				env.Kafka = testenv.KafkaOrEmbedded(t, env.Prefix)
			} else {
				env.Kafka = testenv.EmbeddedKafka(t).Seeds
			}
			stocktest.Run(t, env)
		})
	}
}

// On a Redis Cluster the products, and the segments of one, lie in several slots.
func TestConformanceOnACluster(t *testing.T) {
	t.Parallel()
	stocktest.Run(t, stocktest.Cluster(t))
}
