// Package webhooks starts the webhook cases of LeaderWorkerSet on a cluster that runs already, whose webhooks are
// those of the operator under test. It takes the place of the start that the released suite has for its own webhooks.
package webhooks

import (
	"context"
	"os"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	leaderworkerset "sigs.k8s.io/lws/api/leaderworkerset/v1"
	"sigs.k8s.io/lws/pkg/webhooks"
)

// The cases use these names.
var (
	ctx       = context.Background()
	k8sClient client.Client
	// The cases of gang scheduling configure their own webhook, which nobody calls here.
	pw = webhooks.NewPodWebhook(nil)
)

func TestWebhooks(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, "webhooks of LeaderWorkerSet")
}

var _ = ginkgo.BeforeSuite(func() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	gomega.Expect(err).To(gomega.Succeed())
	gomega.Expect(leaderworkerset.AddToScheme(scheme.Scheme)).To(gomega.Succeed())
	k8sClient, err = client.New(config, client.Options{Scheme: scheme.Scheme})
	gomega.Expect(err).To(gomega.Succeed())
})
