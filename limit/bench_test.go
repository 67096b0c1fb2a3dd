package limit

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
)

func BenchmarkAllow(b *testing.B) {
	for _, addresses := range []int{1, 1000, 900_000, 1_200_000} {
		b.Run(fmt.Sprint(addresses), func(b *testing.B) {
			w := NewAddresses(Token, nil)
			list := make([]netip.Addr, addresses)
			for i := range list {
				list[i] = stranger(i)
				w.Allow(list[i], noon)
			}
			var callers atomic.Int64
			b.SetParallelism(16)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				i := int(callers.Add(1)) * 7919
				for pb.Next() {
					i++
					w.Allow(list[i*31%addresses], noon.Add(time.Duration(i)*25*time.Microsecond))
				}
			})
		})
	}
}

func BenchmarkStrangers(b *testing.B) {
	w := NewAddresses(Token, nil)
	b.ReportAllocs()
	for i := range b.N {
		w.Allow(stranger(i), noon.Add(time.Duration(i)*25*time.Microsecond))
	}
}

func BenchmarkOrganization(b *testing.B) {
	w := NewNames(API)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			w.Allow("o1", noon.Add(time.Duration(i)*time.Millisecond))
		}
	})
}
