package demo

import (
	"context"
	"errors"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"
)

const (
	calmFor     = 3 * time.Second // before the first host dies: there is something to see first
	reportAfter = time.Second     // how long the monitor needs
)

// Interactive reports whether both are a terminal, so that Show works there.
func Interactive(in io.Reader, out io.Writer) bool { return isTerminal(in) && isTerminal(out) }

func isTerminal(stream any) bool {
	f, ok := stream.(term.File)
	return ok && term.IsTerminal(f.Fd())
}

// Show runs the demonstration in a terminal until its user quits or ctx ends.
func Show(ctx context.Context, o Options, in io.Reader, out io.Writer, environ []string) error {
	w, err := start(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(show(ctx, w, in, out, environ), w.stop())
}

func show(ctx context.Context, w *world, in io.Reader, out io.Writer, environ []string, more ...tea.ProgramOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := setUp(ctx, w)
	if err != nil {
		return err
	}
	m := screen{ctx: ctx, stage: s, scene: s.current(), dying: map[string]bool{}, reviving: map[string]bool{}}
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithEnvironment(environ), tea.WithoutSignalHandler()}
	p := tea.NewProgram(m, append(options, more...)...)
	last, err := p.Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		err = nil // a signal is a way to quit
	}
	if end, ok := last.(screen); ok && err == nil {
		err = end.err
	}
	return err
}

// screen is the terminal's state: the scene that it shows, and what was asked for.
type screen struct {
	ctx           context.Context
	stage         *stage
	scene         Scene
	dying         map[string]bool // hosts whose power is being taken away, until the scene shows it: a second k means another one
	reviving      map[string]bool // likewise those that are being given power: a second r means another one, and not a second report
	width, height int
	err           error // why it ended, nil for a quit
}

// Messages.
type (
	looked   struct{}              // the stage has a new scene
	calmOver struct{}              // the first host is to die
	died     struct{ host string } // its monitor is to notice
	failed   struct{ err error }
	nothing  struct{}
)

func (m screen) Init() tea.Cmd {
	return tea.Batch(m.look(), m.watch(), tea.Tick(calmFor, func(time.Time) tea.Msg { return calmOver{} }))
}

func (m screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case looked:
		m.scene = m.stage.current()
		for _, h := range m.scene.Hosts {
			if h.Powered {
				delete(m.reviving, h.Name)
			} else {
				delete(m.dying, h.Name)
			}
		}
		return m, tea.Tick(lookEvery, func(time.Time) tea.Msg { return m.look()() })
	case calmOver:
		if len(m.scene.Incidents) == 0 && len(m.dying) == 0 {
			return m, m.kill()
		}
	case died:
		return m, tea.Tick(reportAfter, func(time.Time) tea.Msg {
			return m.outcome(m.stage.report(m.ctx, msg.host), nothing{})
		})
	case failed:
		m.err = msg.err
		return m, tea.Quit
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "ctrl+c", "esc":
			return m, tea.Quit
		case "k":
			return m, m.kill()
		case "r":
			return m, m.revive()
		case "l":
			return m, m.release()
		}
	}
	return m, nil
}

func (m screen) View() tea.View {
	v := tea.NewView("")
	if m.width > 0 {
		v.SetContent(render(m.scene, m.width, m.height))
	}
	v.AltScreen = true
	v.WindowTitle = "salvor demo"
	return v
}

// look sees how things stand. What fails is shown with the scene.
func (m screen) look() tea.Cmd {
	return func() tea.Msg {
		_ = m.stage.look(m.ctx) // kept as the scene's trouble
		return looked{}
	}
}

// watch waits for a part of the world that ends by itself.
func (m screen) watch() tea.Cmd {
	return func() tea.Msg {
		select {
		case err := <-m.stage.w.failed:
			return failed{err}
		case <-m.ctx.Done():
			return nothing{}
		}
	}
}

func (m screen) kill() tea.Cmd {
	host := m.scene.next(m.dying)
	if host == "" {
		return nil
	}
	m.dying[host] = true
	return func() tea.Msg { return m.outcome(m.stage.kill(m.ctx, host), died{host}) }
}

func (m screen) revive() tea.Cmd {
	host := m.scene.dead(m.reviving)
	if host == "" {
		return nil
	}
	m.reviving[host] = true
	return func() tea.Msg { return m.outcome(m.stage.revive(m.ctx, host), nothing{}) }
}

func (m screen) release() tea.Cmd {
	host := m.scene.held()
	if host == "" {
		return nil
	}
	return func() tea.Msg { return m.outcome(m.stage.release(m.ctx, host), nothing{}) }
}

// outcome is the message of a command that ended: a failure ends the demonstration, unless it is over anyway.
func (m screen) outcome(err error, well tea.Msg) tea.Msg {
	if err != nil && m.ctx.Err() == nil {
		return failed{err}
	}
	return well
}
