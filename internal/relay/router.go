package relay

import (
	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/internal/config"
)

// owner is a surface that has paths of its own.
type owner interface {
	serve.Handler
	// Owns tells whether a path, as sent, is the surface's.
	Owns(path []byte) bool
	// Refusals is serve.Config.Refusals: nil for another's path.
	Refusals(path []byte) serve.Refusal
}

// owners returns the surfaces with paths of their own, in the order in which
// they are asked.
func (r *Relay) owners() (list []owner) {
	if r.aepws != nil {
		list = append(list, r.aepws.surface)
	}
	if r.sync != nil {
		list = append(list, r.sync)
	}
	if r.firehose != nil {
		list = append(list, r.firehose.surface)
	}
	return list
}

// handler returns what serves the requests: the surfaces that own their paths,
// before the AEP relay, which has all others.
func (r *Relay) handler() serve.Handler {
	var rest serve.Handler = noSurface{}
	if r.cfg.Serves(config.SurfaceAEP) {
		rest = r.surface
	}
	owners := r.owners()
	if len(owners) == 0 {
		return rest
	}
	return &router{owners: owners, rest: rest}
}

// refusals implements serve.Config.Refusals.
func (r *Relay) refusals(path []byte) serve.Refusal {
	for _, o := range r.owners() {
		if refusal := o.Refusals(path); refusal != nil {
			return refusal
		}
	}
	return nil
}

// noSurface implements serve.Handler for paths that no surface has.
type noSurface struct{}

// Serve implements serve.Handler.
func (noSurface) Serve(x *serve.Exchange) {
	x.Respond(&http1.Response{Status: 404, KeepAlive: true})
}

// router implements serve.Handler: a surface's rules hold on its own paths only
// and are decided before any other's (S2). Immutable.
type router struct {
	owners []owner
	rest   serve.Handler
}

// Serve implements serve.Handler.
func (m *router) Serve(x *serve.Exchange) {
	for _, o := range m.owners {
		if o.Owns(x.Head.Path) {
			o.Serve(x)
			return
		}
	}
	m.rest.Serve(x)
}
