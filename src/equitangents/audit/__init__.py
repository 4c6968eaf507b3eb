"""How equivariant is a trained model, where does it break, and what would mend it?"""
