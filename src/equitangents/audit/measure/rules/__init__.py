"""How a model's outputs move when its inputs do: rules that are fitted on some inputs and tested on others."""
