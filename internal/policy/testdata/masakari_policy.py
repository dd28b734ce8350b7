# Masakari's own policy, asked about files and callers: what each of its rules says of each.
import json, logging, sys, warnings
warnings.simplefilter('ignore')
logging.disable(logging.CRITICAL)
import masakari.conf
from masakari import context, policies, policy

CONF = masakari.conf.CONF
CONF([], project='masakari', default_config_files=[], default_config_dirs=[])
rules = [r.name for r in policies.list_rules()]


def answers(file, callers):
    policy.reset()
    CONF.set_override('policy_file', file, 'oslo_policy')
    CONF.set_override('policy_dirs', [], 'oslo_policy')
    said = []
    for c in callers:
        # As its middleware makes it of the headers.
        ctx = context.RequestContext(c['User'], c['Project'] or None, roles=c['Roles'])
        said.append({r: bool(ctx.can(r, fatal=False)) for r in rules})
    return said


asked, told = json.load(sys.stdin), []
for file in asked['Files']:
    try:
        told.append(answers(file, asked['Callers']))
    except Exception:
        told.append(None)
json.dump(told, sys.stdout)
