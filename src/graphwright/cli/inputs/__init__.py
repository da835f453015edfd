"""What the command line is given by name: models, saved plans, algorithms."""

from graphwright.cli.inputs.models import load_gnn, load_graph, load_model
from graphwright.cli.inputs.names import NamesInHelp
from graphwright.cli.inputs.plan_files import Pick, check_model, load_plan, open_plans, pick, size
